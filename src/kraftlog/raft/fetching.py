"""Fetching from a leader, and what its answers do to the log: for followers and observers."""

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
    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.messages import FetchResult
    from kraftlog.types import OffsetAndEpoch


#: As a high watermark: that of the leader is no news by itself (Kafka's sign, KIP-1166).
NO_NEWS = (1 << 63) - 1


def fetch_from(core: RaftCore, peer: int) -> None:
    """Ask for what follows the log. A voter's fetch acknowledges, so it waits for the disk (Q6)."""
    log = core.log
    fetch = Fetch(
        cluster_id=core.cluster_id,
        replica=core.me,
        epoch=core.election.epoch,
        offset=log.end,
        last_epoch=log.last_epoch,
        high_watermark=log.high_watermark if core.config.awaits_commits else NO_NEWS,
        max_wait_ms=core.config.fetch_max_wait_ms,
        max_bytes=core.config.max_fetch_bytes,
    )
    unflushed = core.may_campaign and log.flushed < log.end
    core.send(peer, fetch, (LogDurable(log.end),) if unflushed else ())


def take(core: RaftCore, answer: FetchResult) -> bool:
    """What a leader's answer does to the log; False: it was a refusal."""
    if answer.error:
        return False
    if answer.diverging is not None:
        _truncate(core, answer.diverging)
    elif answer.snapshot is None:
        _append(core, answer)
        advance(core, answer.high_watermark)
    return True


def _truncate(core: RaftCore, diverging: OffsetAndEpoch) -> None:
    """Q19: back to where the logs agree, as far as one answer can tell."""
    mine = core.log.end_of_epoch(diverging.epoch)
    end = min(diverging.offset, mine.offset)
    shorter = end < core.log.end
    other_voters = core.log.truncate(end)
    if shorter:
        core.effect(Truncate(end))
    if other_voters:
        core.settle_voters()


def _append(core: RaftCore, answer: FetchResult) -> None:
    """Take the batches that fit; the rest is dropped: it is not what was asked for."""
    log = core.log
    role = core.role
    epoch = log.last_epoch
    for batch in answer.batches:
        if batch.base_offset != log.end or not epoch <= batch.epoch <= answer.epoch:
            return
        log.append(batch)
        epoch = batch.epoch
        core.effect(Append(batch))
        if batch.voters is not None:
            core.settle_voters()
            if core.role is not role:
                return


def advance(core: RaftCore, high_watermark: int) -> None:
    """Q22: what is committed, as far as this log holds it."""
    log = core.log
    known = min(high_watermark, log.end)
    if known > log.high_watermark:
        before, log.high_watermark = log.high_watermark, known
        passed_voters = (
            log.voters.latest_offset >= before and before <= log.voters.members_since < known
        )
        core.effect(Committed(known))
        if passed_voters:
            core.settle_voters()  # its own removal may be committed now
        if core.cluster_id is None:
            learn_cluster_id(core)


def learn_cluster_id(core: RaftCore) -> None:
    """Q29: it stands in the newest committed record of voters, if one says it."""
    cluster_id = core.log.voters.committed(core.log.high_watermark).cluster_id
    if cluster_id is not None:
        core.cluster_id = cluster_id
        core.effect(ClusterIdKnown(cluster_id))
