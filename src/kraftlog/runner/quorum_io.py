"""Carries out the quorum's effects: file writes, responses with data, and requests to peers.

A disk failure here stops the node: its votes and acknowledged records may not be on disk.
"""

from __future__ import annotations

from kraftlog import effects
from kraftlog.errors import (
    CorruptBatchError,
    CorruptLogError,
    DiskFullError,
    ErrorCode,
    ProtocolError,
    StorageError,
)
from kraftlog.node.config import RecoveredMetadata
from kraftlog.node.quorum.batches import METADATA_LOG, records_in, unreplayable_snapshot
from kraftlog.node.quorum.responses import response_to_wire
from kraftlog.node.quorum.snapshots import check_snapshot
from kraftlog.raft.messages import ElectionState
from kraftlog.runner.recovered_log import (
    METADATA_CONFIG,
    newest_snapshot,
    read_batches,
    recovered_log,
)
from kraftlog.storage import boot_timestamp, meta_properties, quorum_state, recovery
from kraftlog.storage.batches import describe
from kraftlog.storage.disk import read_whole
from kraftlog.storage.format import BOOTSTRAP
from kraftlog.storage.metadata_snapshots import MetadataSnapshots
from kraftlog.storage.reserve import is_full
from kraftlog.types import METADATA_TOPIC_ID
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from kraftlog.logstate.voters import VoterSet
    from kraftlog.ports.files import Files
    from kraftlog.ports.io_thread import IOThread
    from kraftlog.ports.peers import Peers
    from kraftlog.runner.flushes import Flushes
    from kraftlog.storage.directory import LogDirectory
    from kraftlog.storage.log import Log
    from kraftlog.types import Now, OffsetAndEpoch
    from kraftlog.wire.schema import Message


#: A cached read is its (offset, limit, max bytes) and its bytes; this value stands for none.
NO_CACHED_READ: tuple[tuple[int, int, int], bytes] = (-1, -1, -1), b""
#: An active segment of this size is rolled after the next snapshot.
SEGMENT_BYTES = 1 << 20
#: The largest read for one follower that is cached for the others.
MAX_CACHED_BYTES = 64 << 10


class NodeStoppedError(StorageError):
    """The node cannot continue; the message says why."""


def open_quorum(
    directory: LogDirectory, voters: VoterSet, log_line: Callable[[str], None]
) -> RecoveredMetadata:
    """Open the metadata log and make its content durable; `voters` are the configured ones."""
    files, folder = directory.disk.files, directory.folder(METADATA_LOG)
    if not files.exists(folder):
        if boot_timestamp.load(files, directory.path) != boot_timestamp.NONE:
            raise CorruptLogError(_missing_folder_message(directory.path, folder))
        directory.reserve.use_for(
            lambda: directory.create(METADATA_LOG, METADATA_TOPIC_ID, METADATA_CONFIG)
        )
    elif METADATA_LOG in directory.unopened:
        log, report = directory.reserve.use_for(
            lambda: recovery.run(directory.open_log(METADATA_LOG, METADATA_CONFIG))
        )
        if report.is_noteworthy:
            log_line(report.line())
    log = directory.logs[METADATA_LOG]
    newest = newest_snapshot(log, log_line)
    if newest is not None and _is_superseded(log, newest.end):
        # The snapshot was fetched, but the node stopped before it replaced the log.
        directory.reserve.use_for(lambda: log.truncate_fully_and_start_at(newest.end.offset))
    snapshot: tuple[Message, ...] = ()
    bootstrap = _bootstrap(files, directory.path)
    if newest is not None:
        try:
            snapshot = tuple(records_in(newest.content))
        except ProtocolError as error:
            raise unreplayable_snapshot(newest.end, error) from error
        if newest.end.offset == 0:
            # Written by formatting (KIP-1170): each controller has its own, and the first active
            # one appends the records to the log.
            bootstrap, snapshot = snapshot or bootstrap, ()
    directory.reserve.use_for(log.flush)
    if newest is not None:
        _drop_before(newest.end, log, log_line)
    stored = quorum_state.load(files, folder)
    state = ElectionState()
    if stored is not None:
        state = ElectionState(stored.epoch, stored.leader_id, stored.voted)
    recovered = recovered_log(log, newest)
    if voters.voters and recovered.voter_set.voters and voters.ids != recovered.voter_set.ids:
        log_line(
            f"controller.quorum.voters names {_listed(voters)}; "
            f"the voters in the metadata log are {_listed(recovered.voter_set)}"
        )
    if not recovered.voters.base.voters:
        recovered.voters.base = voters
    return RecoveredMetadata(
        log=recovered,
        election=state,
        snapshot=snapshot,
        applied=newest.end.offset if newest is not None else log.start_offset,
        bootstrap=bootstrap,
        last_boot_ms=boot_timestamp.load(files, directory.path),
    )


def _missing_folder_message(directory: str, folder: str) -> str:
    """Only controllers of a quorum have the file: they must not vote again in the same epoch."""
    return (
        f"{folder} is missing, and with it the votes of this node and what it has acknowledged. "
        f"Restore it if it exists. If it is lost, empty {directory}, format it with kraftlog "
        "format --no-initial-controllers, and replace the voter (kraftlog quorum "
        "remove-controller, add-controller). If this node is only a broker now, remove "
        f"{directory}/{boot_timestamp.NAME}"
    )


def _listed(voters: VoterSet) -> str:
    return ", ".join([str(voter_id) for voter_id in voters.ids])


def _is_superseded(log: Log, snapshot: OffsetAndEpoch) -> bool:
    """Whether the log ends before a snapshot, or diverges from it."""
    if log.start_offset >= snapshot.offset:
        return False
    if log.end_offset < snapshot.offset:
        return True
    return log.epochs.epoch_at(snapshot.offset - 1) != snapshot.epoch


def _drop_before(snapshot: OffsetAndEpoch, log: Log, log_line: Callable[[str], None]) -> None:
    """Delete records and snapshots before the newest snapshot, if the last process did not."""
    files = log.disk.files
    files.sync_folder(log.folder)  # the snapshot's name may not be durable yet
    try:
        log.move_start(max(snapshot.offset, log.start_offset))
    except DiskFullError as error:
        log_line(str(error))  # the old files are deleted later
        return
    MetadataSnapshots(files, log.folder).remove_before(snapshot.offset)


def _bootstrap(files: Files, path: str) -> tuple[Message, ...]:
    """The bootstrap records in the file in which Kafka's tool wrote them before Kafka 4.4."""
    name = f"{path}/{BOOTSTRAP}"
    return tuple(records_in(read_whole(files, name))) if files.exists(name) else ()


class _SnapshotWrite(Value):
    """A snapshot that is being written: its remaining parts, and the position of the next part."""

    id: OffsetAndEpoch
    remaining: Iterator[bytes]
    position: int = 0
    is_writing: bool = False


def _part_written(write: _SnapshotWrite, _: Now) -> None:
    write.is_writing = False


class QuorumIO:
    """Carries out the effects of a `QuorumDriver`; reports go to `notify`."""

    def __init__(
        self,
        files: Files,
        directory: LogDirectory,
        io_thread: IOThread,
        flushes: Flushes,
        peers: Peers,
        log_line: Callable[[str], None],
        notify: Callable[[Any, Now], None],
        segment_bytes: int = SEGMENT_BYTES,
        others: Sequence[str] = (),
    ) -> None:
        """`others`: the other log directories of the node, which store the cluster id, too."""
        self._paths = (directory.path, *others)
        self._files = files
        self._segment_bytes = segment_bytes
        self._log_line = log_line
        self._directory = directory
        self._folder = directory.folder(METADATA_LOG)
        self._io_thread = io_thread
        self._flushes = flushes
        self._notify = notify
        self._snapshots = MetadataSnapshots(files, self._folder)
        #: The newest election state; it may not be on disk yet.
        self._election = quorum_state.QuorumStateData()
        #: The last read: all followers fetch the same batches at about the same time.
        self._cached_read = NO_CACHED_READ
        self._snapshot_write: _SnapshotWrite | None = None
        self.carry_out: dict[type, Callable[[Any, Now], None]] = {
            effects.AppendBatch: self._append,
            effects.TruncateLog: self._truncate,
            effects.WriteElection: self._write_election,
            effects.PersistClusterId: self._persist_cluster_id,
            effects.WriteBootTimestamp: self._write_boot,
            effects.SendRecords: self._send_records,
            effects.SendSnapshot: self._send_snapshot,
            effects.StoreSnapshot: self._store_snapshot,
            effects.WriteSnapshotPart: self._write_part,
            effects.LoadSnapshot: self._install,
            effects.SendRequest: lambda effect, _: peers.send(effect),
            effects.UnreachablePeer: self._unreachable,
            effects.StopNode: self._stop,
        }

    @property
    def _log(self) -> Log:
        return self._directory.logs[METADATA_LOG]

    # The log -------------------------------------------------------------------------------------

    def _append(self, effect: effects.AppendBatch, now: Now) -> None:
        buffers, log = [effect.data], self._log
        batches = describe(buffers)
        self._directory.reserve.use_for(lambda: log.append(buffers, batches, now.wall_ms))
        if effect.flush:
            self._flushes.request(METADATA_LOG, self._log.end_offset)

    def _truncate(self, effect: effects.TruncateLog, _: Now) -> None:
        log = self._log
        self._directory.reserve.use_for(lambda: log.truncate_to(effect.offset))
        self._cached_read = NO_CACHED_READ
        self._flushes.request(METADATA_LOG, self._log.end_offset)

    def _write_election(self, effect: effects.WriteElection, _: Now) -> None:
        """Every job writes the newest state, as a retried job may run after a newer one."""
        self._election = quorum_state.QuorumStateData(
            effect.leader_id,
            effect.epoch,
            effect.voted,
            version=quorum_state.DYNAMIC_VOTERS
            if effect.kraft_version
            else quorum_state.STATIC_VOTERS,
            cluster_id=effect.cluster_id,
            applied_offset=effect.applied_offset,
            voter_ids=effect.voter_ids,
        )

        self._submit(
            "writing the election state",
            lambda: quorum_state.store(self._files, self._folder, self._election),
            lambda now: self._notify(effects.ElectionWritten(effect.version), now),
        )

    def _submit(self, action: str, job: Callable[[], Any], on_done: Callable[[Now], None]) -> None:
        """Run a job in the I/O thread; if the disk is full, spend the reserve and run it once more.

        The reserve may also have been spent for another write since the job was submitted.
        """
        disk, reserve = self._directory.disk, self._directory.reserve
        was_spent = disk.has_only_reserve

        def ended(_: Any, error: BaseException | None, now: Now) -> None:
            nonlocal was_spent
            if is_full(error) and (reserve.spend() or (disk.has_only_reserve and not was_spent)):
                was_spent = True
                self._io_thread.submit(job, ended)
            elif error is not None:
                raise NodeStoppedError(f"{self._folder}: {action}: {error}")
            else:
                on_done(now)

        self._io_thread.submit(job, ended)

    def _persist_cluster_id(self, effect: effects.PersistClusterId, _: Now) -> None:
        def store() -> None:
            for path in self._paths:
                meta_properties.store_cluster_id(self._files, path, effect.cluster_id)

        self._submit("writing the cluster id", store, lambda _: None)

    def _write_boot(self, effect: effects.WriteBootTimestamp, _: Now) -> None:
        boot_ms = effect.boot_timestamp_ms
        self._submit(
            "writing the boot timestamp",
            lambda: boot_timestamp.store(self._files, self._directory.path, boot_ms),
            lambda now: self._notify(effects.BootTimestampWritten(boot_ms), now),
        )

    def _send_records(self, effect: effects.SendRecords, _: Now) -> None:
        response = effect.response
        requested = response.offset, response.limit, max(effect.max_bytes, 1)
        cached, data = self._cached_read
        if cached != requested:
            data = read_batches(self._log, *requested)
            if len(data) <= MAX_CACHED_BYTES:
                self._cached_read = requested, data
        effect.pending.respond(response_to_wire(response, data))

    # Snapshots -----------------------------------------------------------------------------------

    def _send_snapshot(self, effect: effects.SendSnapshot, _: Now) -> None:
        response = effect.response
        try:
            size, data = self._snapshots.read_part(
                response.id, response.position, response.max_bytes
            )
        except FileNotFoundError:
            response.error = ErrorCode.SNAPSHOT_NOT_FOUND
            size, data = 0, b""
        if response.position > size:
            response.error = ErrorCode.POSITION_OUT_OF_RANGE
        response.size = size
        effect.pending.respond(response_to_wire(response, data))

    def _store_snapshot(self, effect: effects.StoreSnapshot, _: Now) -> None:
        self._snapshot_write = _SnapshotWrite(effect.id, iter(effect.pieces))

    @property
    def has_work(self) -> bool:
        """Whether the next turn has something to do."""
        return self._snapshot_write is not None and not self._snapshot_write.is_writing

    def resume(self) -> bool:
        """Write a snapshot's next part if the previous one is on disk; return whether a job began.

        Snapshots share an I/O thread with the log, so a metadata change waits for one part at most.
        """
        write = self._snapshot_write
        if write is None or write.is_writing:
            return False
        part = next(write.remaining, None)
        if part is None:
            self._snapshot_write = None
            self._submit(
                "writing a snapshot",
                lambda: self._snapshots.finish(write.id),
                lambda now: self._stored(write, now),
            )
            return True
        position, write.position = write.position, write.position + len(part)
        write.is_writing = True
        self._submit(
            "writing a snapshot",
            lambda: self._snapshots.write_part(write.id, position, part, durably=True),
            lambda now: _part_written(write, now),
        )
        return True

    def _stored(self, write: _SnapshotWrite, now: Now) -> None:
        """Report the stored snapshot, and roll the active segment if it is large enough.

        Only whole segments before the log start are deleted, and recovery scans the active one.
        """
        self._notify(effects.SnapshotStored(write.id), now)
        self.remove_old_snapshots()
        segments = self._log.segments
        if segments and segments[-1].size >= self._segment_bytes:
            self._directory.reserve.use_for(lambda: self._log.roll(now.wall_ms))

    def _write_part(self, effect: effects.WriteSnapshotPart, _: Now) -> None:
        """Write a fetched part as the leader sent it; on a full disk, with the reserve."""
        self._directory.reserve.use_for(
            lambda: self._snapshots.write_part(effect.id, effect.position, effect.data)
        )

    def _install(self, effect: effects.LoadSnapshot, now: Now) -> None:
        data = self._snapshots.read_unfinished(effect.id)
        try:
            check_snapshot(data)
        except CorruptBatchError as error:
            self._log_line(
                f"{self._snapshots.path(effect.id)}: the snapshot fetched from the leader is "
                f"corrupt and will be fetched again: {error}"
            )
            self._snapshots.discard(effect.id)
            self._notify(effects.SnapshotCorrupt(effect.id), now)
            return
        self._snapshots.finish(effect.id)  # not retried: a failed sync may have lost data
        log = self._log
        self._directory.reserve.use_for(lambda: log.truncate_fully_and_start_at(effect.id.offset))
        self._cached_read = NO_CACHED_READ
        self.remove_old_snapshots()
        self._notify(effects.SnapshotLoaded(effect.id, data), now)

    def remove_old_snapshots(self) -> None:
        """Delete snapshots before the log start; empty replicas fetch the one at the log start."""
        self._snapshots.remove_before(self._log.start_offset)

    # Peers ---------------------------------------------------------------------------------------

    def _unreachable(self, effect: effects.UnreachablePeer, now: Now) -> None:
        why = "its address is unknown"
        self._notify(effects.RequestFailed(effect.channel, effect.peer, effect.number, why), now)

    def _stop(self, effect: effects.StopNode, _: Now) -> None:
        raise NodeStoppedError(effect.reason)
