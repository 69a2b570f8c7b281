"""Invariants of whole nodes besides those of the quorum: their files and their state."""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError
from kraftlog.logstate.voters import VoterSet
from kraftlog.metadata.image import Image
from kraftlog.metadata.versions import record_version
from kraftlog.node.quorum.batches import records_in, snapshot_voters
from kraftlog.node.quorum.snapshots import check_snapshot
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.record_frames import encode_metadata
from kraftlog_simulator.checkers.oracle import NO_CHAIN
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraftlog.wire.schema import Message
    from kraftlog_simulator.nodes.node_process import NodeProcess
    from kraftlog_simulator.snapshot import Snapshot
    from kraftlog_simulator.world import World


class FilesMatchWrites(Invariant):
    """The files contain the bytes that were written, in their order (Q7, Q8)."""

    name = "storage"

    def on_full_check(self) -> None:
        for replica in self.world.running:
            replica.disk.check()  # type: ignore[attr-defined]  # it is the view of a whole node


class StateMatchesLog(Invariant):
    """A node's image, and every snapshot, results from the committed records before it (Q38)."""

    name = "true state"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        #: The last checked log, and the state that results from it.
        self._chain = NO_CHAIN
        self._image, self._voters = Image(), VoterSet()
        self._state: list[bytes] | None = None

    def on_snapshot_file(self, replica: NodeProcess, snapshot: Snapshot) -> None:
        """A snapshot has been completed on a disk."""
        state, voters = self._state_of(snapshot.state)
        try:
            check_snapshot(snapshot.data)
        except CorruptBatchError as error:
            self.fail(f"replica {replica.id}: {snapshot.id} is damaged: {error}")
        if encoded(records_in(snapshot.data)) != state:
            self.fail(f"replica {replica.id}: {snapshot.id} does not result from its log")
        recorded = snapshot_voters(snapshot.data)
        if voters.voters and recorded != voters:
            self.fail(f"replica {replica.id}: {snapshot.id} has {recorded}, the log {voters}")

    def on_full_check(self) -> None:
        nodes = [(replica, replica.node) for replica in self.world.running]  # type: ignore[attr-defined]  # they are whole nodes
        nodes.sort(key=lambda pair: pair[1].quorum.applied)
        for replica, node in nodes:
            if node.quorum.is_applying:
                continue  # it is between two states
            position = replica.disk.position_before(node.quorum.applied)
            chain = replica.disk.chains[position] if position >= 0 else NO_CHAIN
            if encoded(node.image.records()) != self._state_of(chain)[0]:
                self.fail(f"replica {replica.id}: its image does not result from its log")

    def _state_of(self, chain: int) -> tuple[list[bytes], VoterSet]:
        """The sorted records of the image that results from a log, and the voters at its end."""
        if chain == self._chain and self._state is not None:
            return self._state, self._voters
        batches = self.oracle.between(self._chain, chain)
        if batches is None:  # it does not continue the previous log
            self._image, self._voters = Image(), VoterSet()
            batches = self.oracle.log_of(chain)[0]
        for batch in batches:
            self._voters = batch.voters or self._voters
            if isinstance(batch.payload, bytes):
                for record in records_in(batch.payload):
                    self._image.replay(record)
        self._chain, self._state = chain, encoded(self._image.records())
        return self._state, self._voters


def encoded(records: Iterable[Message]) -> list[bytes]:
    return sorted([encode_metadata(record, record_version(record)) for record in records])
