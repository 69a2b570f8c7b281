"""Fetching from a leader and applying its responses to the log, for followers and observers."""

from __future__ import annotations

from kraftlog.raft.messages import (
    Append,
    ClusterIdKnown,
    Committed,
    Fetch,
    LogDurable,
    Truncate,
)
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.raft.interfaces import Core
    from kraftlog.raft.messages import FetchResult
    from kraftlog.types import OffsetAndEpoch


#: As a fetch's high watermark: do not respond just because the leader's has advanced (KIP-1166).
IGNORE_HIGH_WATERMARK = (1 << 63) - 1


def fetch_from(core: Core, peer: int) -> None:
    """Fetch from the end of the log (Q6).

    The offset acknowledges the whole log, so a voter flushes the log first.
    """
    log = core.log
    fetch = Fetch(
        cluster_id=core.cluster_id,
        replica=core.me,
        epoch=core.election.epoch,
        offset=log.end,
        last_epoch=log.last_epoch,
        high_watermark=log.high_watermark if core.config.awaits_commits else IGNORE_HIGH_WATERMARK,
        max_wait_ms=core.config.fetch_max_wait_ms,
        max_bytes=core.config.max_fetch_bytes,
    )
    unflushed = core.may_be_counted and log.flushed < log.end
    core.send(peer, fetch, (LogDurable(log.end),) if unflushed else ())


def apply(core: Core, response: FetchResult) -> bool:
    """Apply a leader's response to the log; return False if it is an error.

    The role fetches the snapshot that a response names.
    """
    if response.error:
        return False
    if response.diverging is not None:
        _truncate(core, response.diverging)
    elif response.snapshot is None:
        _append(core, response)
        advance(core, response.high_watermark)
    return True


def _truncate(core: Core, diverging: OffsetAndEpoch) -> None:
    """Truncate to the end of the common prefix, as far as one response shows it (Q19)."""
    mine = core.log.end_of_epoch(diverging.epoch)
    end = min(diverging.offset, mine.offset)
    is_shorter = end < core.log.end
    voters_changed = core.log.truncate(end)
    if is_shorter:
        core.effect(Truncate(end))
    if voters_changed:
        core.adapt_role()


def _append(core: Core, response: FetchResult) -> None:
    """Append the batches that continue the log, and drop the rest."""
    log = core.log
    role = core.role
    epoch = log.last_epoch
    for batch in response.batches:
        if batch.base_offset != log.end or not epoch <= batch.epoch <= response.epoch:
            return
        log.append(batch)
        epoch = batch.epoch
        core.effect(Append(batch))
        if batch.voters is not None:
            core.adapt_role()
            if core.role is not role:
                return


def advance(core: Core, high_watermark: int) -> None:
    """Advance the high watermark, at most to the end of this log (Q22)."""
    log = core.log
    known = min(high_watermark, log.end)
    if known > log.high_watermark:
        before, log.high_watermark = log.high_watermark, known
        commits_voters = (
            log.voters.latest_offset >= before and before <= log.voters.members_since < known
        )
        core.effect(Committed(known))
        if commits_voters or before <= core.removed_at < known:
            core.adapt_role()  # this replica's own removal may be committed now
        if core.cluster_id is None:
            learn_cluster_id(core)


def learn_cluster_id(core: Core) -> None:
    """Take the cluster id from the newest committed voters record, if it has one (Q29)."""
    cluster_id = core.log.voters.committed(core.log.high_watermark).cluster_id
    if cluster_id is not None:
        core.cluster_id = cluster_id
        core.effect(ClusterIdKnown(cluster_id))
