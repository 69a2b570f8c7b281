"""Repairs a quorum that has lost its majority, in the directory of a surviving voter."""

from __future__ import annotations

from kraftlog.errors import StorageError
from kraftlog.logstate.voters import ReplicaKey, voters_by_id
from kraftlog.node.quorum.batches import METADATA_LOG, control_batch
from kraftlog.raft.messages import ElectionState
from kraftlog.raft.repair import RepairRefusedError, plan, survivor_of
from kraftlog.records.walk import walk
from kraftlog.runner.recovered_log import (
    METADATA_CONFIG,
    newest_snapshot,
    read_batches,
    recovered_log,
)
from kraftlog.storage import meta_properties, quorum_state
from kraftlog.storage.batches import describe
from kraftlog.storage.directory import LogDirectory
from kraftlog.storage.disk import read_whole
from kraftlog.storage.recovery import run
from kraftlog.types import METADATA_TOPIC
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.logstate.voters import VoterSet
    from kraftlog.ports.files import Files
    from kraftlog.raft.repair import Plan, SurvivingState
    from kraftlog.storage.log import Log


class SurvivingDirectory:
    """The directory of a stopped node, locked while it is inspected and repaired.

    Opening it recovers the log as a start of the node would: a torn end is truncated.
    """

    def __init__(self, files: Files, path: str) -> None:
        self.files = files
        self._properties = meta_properties.parse(
            read_whole(files, f"{path}/{meta_properties.NAME}"), f"{path}/{meta_properties.NAME}"
        )
        try:
            self._directory = LogDirectory(files, path)
        except BlockingIOError:
            raise RepairRefusedError(
                f"{path} is in use: stop the node and keep it stopped"
            ) from None
        try:
            #: `recovery`: lines for the operator about truncated bytes and corrupt snapshots.
            self._log, self.recovery = self._open(path)
            self.stored = quorum_state.load(files, self._log.folder)
            self.state = self._inspect()
        except BaseException:
            self._directory.release()
            raise

    def _open(self, path: str) -> tuple[Log, list[str]]:
        if METADATA_LOG not in self._directory.names():
            raise RepairRefusedError(
                f"{path} has no {METADATA_TOPIC}-0: this is not the directory of a voter"
            )
        log, report = run(self._directory.open_log(METADATA_LOG, METADATA_CONFIG))
        return log, [report.line()] if report.is_noteworthy else []

    def _inspect(self) -> SurvivingState:
        stored = self.stored or quorum_state.QuorumStateData()
        snapshot = self._snapshot = newest_snapshot(self._log, self.recovery.append)
        if snapshot is not None and snapshot.end.offset > self._log.end_offset:
            raise RepairRefusedError(
                f"{self._log.folder}: the log ends at {self._log.end_offset}, before its snapshot "
                f"at {snapshot.end.offset}: it cannot be recovered without another replica"
            )
        high_watermark = max(self._directory.high_watermark(METADATA_LOG), stored.applied_offset)
        log = recovered_log(self._log, snapshot, high_watermark)
        return survivor_of(
            ReplicaKey(self._properties.node_id, self._properties.directory_id),
            self._properties.cluster_id,
            ElectionState(stored.epoch, stored.leader_id, stored.voted),
            log,
            voters_by_id(*stored.voter_ids),
        )

    def drop_from(self, offset: int) -> None:
        """Have `repair` discard the batch that contains this offset, and everything after it."""
        log, survivor = self._log, self.state
        first_offset = max(
            log.start_offset, 0 if self._snapshot is None else self._snapshot.end.offset
        )
        if not first_offset <= offset < survivor.end:
            raise RepairRefusedError(
                f"cannot drop offset {offset}: the log has offsets {first_offset} to "
                f"{survivor.end - 1} after its newest snapshot"
            )
        _, fields = next(walk(read_batches(log, offset, log.end_offset)))
        end = fields[0]
        epochs = log.epochs.copy()
        epochs.truncate_from_end(end)
        election = survivor.election
        self.state = survivor.replace(
            end=end,
            last_epoch=max(epochs.latest, 0),
            committed=min(survivor.committed, end),
            # The epochs of the discarded records are skipped, too.
            election=election.replace(epoch=max(election.epoch, survivor.last_epoch)),
            dropped=survivor.end - end,
        )

    def repair(self, voters: VoterSet, accepted: str | None, now_ms: int) -> Plan:
        """Write the new voters at the end of the log, durably; `plan` may refuse.

        `accepted`: the point at which the operator accepts lost records (--accept-loss).

        The election state comes first: after a crash with it alone, the node has only skipped
        epochs and can be repaired again. Then the log is truncated if `drop_from` was called, and
        one batch is appended, which is written completely or not at all.
        """
        draft = plan(self.state, voters, accepted, size_bytes=0)
        raw = control_batch(draft.batch, now_ms)
        repair_plan = draft.replace(batch=draft.batch.replace(size_bytes=len(raw)))
        state, log = repair_plan.election, self._log
        stored = quorum_state.QuorumStateData(
            epoch=state.epoch,
            voted=state.voted,
            cluster_id=self._properties.cluster_id,
            applied_offset=self.stored.applied_offset if self.stored else 0,
            voter_ids=repair_plan.voters.ids,
        )
        quorum_state.store(self.files, log.folder, stored)
        if self.state.dropped:
            log.truncate_to(self.state.end)
            log.flush()
        log.append([raw], describe([raw]), now_ms)
        log.flush()
        if log.end_offset != repair_plan.batch.last_offset + 1:
            raise StorageError(f"{log.folder}: the log ends at {log.end_offset}")
        return repair_plan

    def close(self) -> None:
        """Close the directory as a clean shutdown does."""
        self._directory.close()
