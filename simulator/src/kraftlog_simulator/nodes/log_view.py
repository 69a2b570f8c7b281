"""The invariants' view of a node's disk, read from the files.

A view is a `RaftDisk` that follows the files of a whole node: it reads the batches from segments,
the durable part from the virtual disk, the election state and snapshots from their own files.
"""

from __future__ import annotations

from kraftlog.node.quorum.batches import snapshot_voters, summaries
from kraftlog.raft.messages import ElectionState
from kraftlog.storage import quorum_state
from kraftlog.storage.metadata_snapshots import name_of, parse_name
from kraftlog.types import METADATA_TOPIC, OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.raft_disk import RaftDisk
from kraftlog_simulator.snapshot import Snapshot
from kraftlog_simulator.violation import Violation
from kraftlog_simulator.wire import is_control, payload_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.raft.messages import Batch
    from kraftlog.storage.log import Log
    from kraftlog_simulator.files import MemoryFiles
    from kraftlog_simulator.nodes.node_process import NodeProcess

DIRECTORY = "data"
FOLDER = f"{DIRECTORY}/{METADATA_TOPIC}-0"
#: The invariant that a violation names.
NAME = "storage"


class LogView(RaftDisk):
    """Call `refresh_log` after possible writes, `refresh_durable` after possible syncs."""

    __slots__ = (
        "_checked_snapshots",
        "_log",
        "_raw_election",
        "_replica",
        "_stored_bytes",
        "_truncations",
        "ends",
    )

    def __init__(self, replica: NodeProcess) -> None:
        super().__init__()
        self._replica = replica
        self._log: Log | None = None
        self._truncations = 0
        #: For each batch its segment, and its end there.
        self.ends: list[tuple[int, int]] = []
        #: The bytes of each batch.
        self._stored_bytes: list[bytes] = []
        self._raw_election = b""
        #: Snapshots whose content was checked.
        self._checked_snapshots: set[OffsetAndEpoch] = set()

    # Start ---------------------------------------------------------------------------------------

    def begin(self, log: Log) -> None:
        """A process has opened its log, which must contain all that was durable.

        Unless a snapshot with a committed end that the log lacked has replaced it (Q38, I13).
        """
        world, durable_chains = self._replica.world, self.chains[: self.durable]
        old_end = self.end
        newest = max(self.stored_snapshots(), key=lambda snapshot: snapshot.offset, default=None)
        if newest is not None and newest.offset and not self.reaches(newest):
            durable_chains = []  # a kill ended the turn of its installation, which no one has seen
        self._log, self._truncations = log, log.truncations
        self._checked_snapshots.clear()
        old_chains = self.chains
        self.batches, self.chains, self.bases, self.ends, self._stored_bytes = [], [], [], [], []
        self.durable = self.dropped = 0
        self.snapshot = self.download = None
        files = self._replica.files
        if newest is not None and newest.offset:
            chain = world.chain_ending(newest)
            self._start_at_snapshot(newest, chain)
            self.snapshot = self._read_snapshot(newest, chain)
        for segment, end, batch, raw in _batches(files, log):
            if batch.base_offset >= self.end:
                self._add(segment, end, batch, raw)
            else:  # the snapshot has it, too
                position = self.position_before(batch.base_offset) + 1
                self.ends[position], self._stored_bytes[position] = (segment, end), raw
        # New batches came from an unobserved sender: assume a leader of a later epoch.
        self.from_later_leader.update(set(self.chains) - set(old_chains))
        self.refresh_durable()
        if self.chains[: len(durable_chains)] != durable_chains:
            self._fail(
                f"the opened log lacks or changed some of {len(durable_chains)} durable batches: "
                f"it ended at offset {old_end}, now at {self.end}"
            )

    def _start_at_snapshot(self, newest: OffsetAndEpoch, chain: int) -> None:
        self.batches, self.chains = self._replica.world.oracle.log_of(chain)
        self.bases = [batch.base_offset for batch in self.batches]
        self.ends = [(-1, 0)] * len(self.batches)
        self._stored_bytes = [b""] * len(self.batches)
        self.dropped = self.durable = len(self.batches)
        if self.end != newest.offset:
            self._fail(f"{newest} has the records up to {self.end}")

    def forget(self) -> None:
        """The disk was lost or replaced by an old copy: it need not have the durable batches."""
        self.durable = 0

    # While it runs -------------------------------------------------------------------------------

    def refresh_log(self) -> None:
        """Read what was appended to the log or truncated since the last call."""
        log = self._log
        assert log is not None
        if log.truncations != self._truncations:
            self._truncations = log.truncations
            self._compare(log)
        elif log.end_offset > self.end:
            for entry in _batches(self._replica.files, log, self.ends):
                self._add(*entry)
        assert self._replica.core is not None
        download = getattr(self._replica.core.role, "download", None)
        self.download = None if download is None else (download.id, b"")
        if log.start_offset > self.start:
            self.drop_prefix(log.start_offset)

    def _compare(self, log: Log) -> None:
        """After a truncation, make the view equal to the files from where they diverge."""
        stored = [
            entry
            for entry in _batches(self._replica.files, log)
            if entry[2].base_offset >= self.start
        ]
        for number, (segment, end, batch, raw) in enumerate(stored):
            position = self.dropped + number
            if position < len(self.batches) and self.batches[position] == batch:
                self.ends[position], self._stored_bytes[position] = (segment, end), raw
            else:
                self._truncate_view(batch.base_offset)
                self._add(segment, end, batch, raw)
        if log.end_offset < self.end:
            self._truncate_view(log.end_offset)

    def _truncate_view(self, offset: int) -> None:
        if offset < self.end:
            self._replica.world.truncates(self._replica, offset)
            self.truncate(offset)
            del self.ends[len(self.batches) :], self._stored_bytes[len(self.batches) :]
            self.old_tail.clear()

    def _add(self, segment: int, end: int, batch: Batch, raw: bytes) -> None:
        oracle = self._replica.world.oracle
        before = self.chains[-1] if self.chains else -1
        next_chain = oracle.chain_count
        chain = oracle.chain(before, batch)
        core = self._replica.core
        self.append(batch, chain)
        if core is not None and core.election.epoch != batch.epoch:
            self.from_later_leader.add(chain)
        self.ends.append((segment, end))
        self._stored_bytes.append(raw)
        if chain == next_chain:  # no replica had this batch before
            self._replica.world.note_chain(batch, chain)
            self._replica.world.appended(self._replica, batch)

    def refresh_durable(self) -> None:
        """Update the durable part of the log, the election state and the snapshots."""
        # Dropped batches are in a durable snapshot, whatever happened to their segment.
        files, position = self._replica.files, max(self.durable, self.dropped)
        sizes: dict[int, int] = {}
        while position < len(self.ends):
            base, end = self.ends[position]
            if base not in sizes:
                file = files.on_disk(_path(base))
                sizes[base] = -1 if file is None else file.durable_size
            if end > sizes[base]:
                break
            position += 1
        self.sync(position)
        self._read_election(files)
        self._read_new_snapshots()

    def _read_election(self, files: MemoryFiles) -> None:
        path = f"{FOLDER}/{quorum_state.NAME}"
        file = files.on_disk(path)
        if file is None or file.disk == self._raw_election:
            return
        self._raw_election = bytes(file.disk)
        stored = quorum_state.decode(self._raw_election, path)
        self.election = ElectionState(stored.epoch, stored.leader_id, stored.voted)
        self._replica.world.persisted(self._replica, self.election)

    # Snapshots -----------------------------------------------------------------------------------

    def stored_snapshots(self) -> Iterator[OffsetAndEpoch]:
        for name in self._replica.files.names(FOLDER):
            end = parse_name(name)
            if end is not None:
                yield end

    def _read_new_snapshots(self) -> None:
        """Check the new snapshots, and remember the newest."""
        for end in self.stored_snapshots():
            if end.offset and end not in self._checked_snapshots:
                self.add_snapshot(self._read_snapshot(end, self.chain_at(end)))

    def chain_at(self, end: OffsetAndEpoch) -> int:
        """The chain at a snapshot's end, from this log or another."""
        position = self.position_before(end.offset)
        if 0 <= position < len(self.batches):
            batch = self.batches[position]
            if (batch.last_offset + 1, batch.epoch) == (end.offset, end.epoch):
                return self.chains[position]
        return self._replica.world.chain_ending(end)

    def _read_snapshot(self, end: OffsetAndEpoch, chain: int) -> Snapshot:
        self._checked_snapshots.add(end)
        data = self._replica.files.bytes_of(f"{FOLDER}/{name_of(end)}")
        voters = snapshot_voters(data) or self._replica.world.voters
        snapshot = Snapshot(end, chain, voters, data)
        self._replica.world.snapshot_seen(self._replica, snapshot)
        return snapshot

    def installed(self, end: OffsetAndEpoch) -> Snapshot:
        """A fetched snapshot has replaced the log."""
        chain = self.chain_at(end)
        snapshot = self._read_snapshot(end, chain)
        self.add_snapshot(snapshot)
        self._start_at_snapshot(end, chain)
        assert self._log is not None
        self._truncations = self._log.truncations
        return snapshot

    # Comparing files and view --------------------------------------------------------------------

    def check(self) -> None:
        """Check that the files contain exactly what was written to them."""
        log = self._log
        assert log is not None
        written: dict[int, list[bytes]] = {segment.base_offset: [] for segment in log.segments}
        for (segment, _), raw in zip(self.ends, self._stored_bytes, strict=True):
            if segment in written:
                written[segment].append(raw)
        for segment, raws in written.items():
            if b"".join(raws) != self._replica.files.file(_path(segment)).content:
                self._fail(f"segment {segment} has other bytes than were written to it")

    def _fail(self, what: str) -> None:
        raise Violation(NAME, f"replica {self._replica.id}: {what}")


def _path(base_offset: int) -> str:
    return f"{FOLDER}/{base_offset:020d}.log"


def _batches(
    files: MemoryFiles, log: Log, known_ends: list[tuple[int, int]] | None = None
) -> Iterator[tuple[int, int, Batch, bytes]]:
    """Segment, end, content and bytes of each batch after the last of `known_ends`."""
    first, position = known_ends[-1] if known_ends else (-1, 0)
    for segment in log.segments:
        base = segment.base_offset
        if base < first:
            continue
        place = position if base == first else 0
        data = bytes(memoryview(files.file(_path(base)).content)[place:])
        for batch in summaries(data):
            place += batch.size_bytes
            raw = batch.payload = bytes(batch.payload)
            if is_control(batch):
                batch.payload = payload_in(raw, is_control=True)
            yield base, place, batch, raw
