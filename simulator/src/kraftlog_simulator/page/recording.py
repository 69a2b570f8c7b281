"""Records a run for its page.

The world of a recorded run is a `RecordedWorld`; other runs pay nothing for this. Recording draws
no random numbers and adds no events, so that a recorded run equals the original.
"""

from __future__ import annotations

from kraftlog.logstate.voters import VoterHistory
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog_simulator.checkers.log_history import (
    Acknowledged,
    Failed,
    Invoked,
    ReadAnswered,
    Unknown,
)
from kraftlog_simulator.network import Network
from kraftlog_simulator.page import sentences
from kraftlog_simulator.page.sentences import ReplicaState
from kraftlog_simulator.workload import Workload
from kraftlog_simulator.world import World

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog_simulator.checkers.log_history import Event
    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.setting import Setting
    from kraftlog_simulator.world import Goal

#: Virtual ms, and the number of the entry among those of that ms.
Moment = tuple[int, int]


class RecordedMessage(Value):
    """A message; its `fate` is "arrived", "lost", "refused" (no process runs), or "" in flight.

    Of a response, `request` is the body of its request; of a request, `response` is the body of its
    response. `event` is the index of its line of text, -1 for a duplicate.
    """

    sent: Moment
    source: int
    target: int
    kind: str
    body: Any
    request: Any
    fate: str = ""
    arrives: Moment | None = None
    event: int = -1
    response: Any = None


class RecordedEvent(Value):
    """One line of text; `message` is the index of the message that it is about."""

    at: Moment
    node: int
    kind: str
    text: str
    message: int = -1


class RecordedFault(Value):
    """A fault with a duration; `end` is None as long as it continues."""

    begin: Moment
    what: str
    nodes: tuple[int, ...]
    end: Moment | None = None


class Recording:
    """Everything that the page shows, in the order in which it happened."""

    def __init__(self) -> None:
        self.time = -1
        #: The number of entries in each ms.
        self.entry_counts: dict[int, int] = {}
        self.events: list[RecordedEvent] = []
        self.messages: list[RecordedMessage] = []
        self.states: dict[int, list[tuple[Moment, ReplicaState]]] = {}
        self.faults: list[RecordedFault] = []
        self.cuts: list[tuple[Moment, tuple[tuple[int, int], ...]]] = []
        self._requests: dict[tuple[int, int, int], RecordedMessage] = {}

    def moment(self) -> Moment:
        """The moment of a new entry."""
        number = self.entry_counts[self.time] = self.entry_counts.get(self.time, 0) + 1
        return self.time, number

    def add_event(self, node: int, kind: str, text: str, message: int = -1) -> None:
        self.events.append(RecordedEvent(self.moment(), node, kind, text, message))

    def add_message(
        self, source: Replica, target: int, return_path: Any, body: Any
    ) -> RecordedMessage:
        """Add a request, or the response to the request with the same return path."""
        requester, incarnation, number = return_path
        key = requester.id, incarnation, number
        request = self._requests.get(key) if requester.id == target else None
        request_body = request.body if request is not None else None
        moment = self.moment()
        kind = sentences.kind_of(body, request_body)
        message = RecordedMessage(moment, source.id, target, kind, body, request_body)
        if request is None:
            self._requests[key] = message
            text = sentences.request(source.id, target, body)
        else:
            request.response = body
            text = sentences.response(source.id, target, body, request_body, source.core)
        message.event = len(self.events)
        index = len(self.messages)
        self.messages.append(message)
        self.events.append(RecordedEvent(moment, source.id, message.kind, text, index))
        return message

    def message_ended(self, message: RecordedMessage, fate: str) -> None:
        if message.fate:  # a duplicate has arrived before
            message = message.replace(event=-1)
            self.messages.append(message)
        message.fate, message.arrives = fate, self.moment()

    def finish(self) -> None:
        """Complete the line of each message with its fate, which is known now."""
        for message in self.messages:
            if message.event < 0:
                continue
            event = self.events[message.event]
            if message.request is None:
                event.text += sentences.fate_of(message.body, message.fate, message.response)
            elif message.fate == "lost":
                event.text = f"{event.text[:-1]}: lost."

    # States of replicas --------------------------------------------------------------------------

    def record_replica(self, replica_id: int, state: ReplicaState) -> None:
        """Record the state of a replica if it has changed."""
        states = self.states.setdefault(replica_id, [])
        before = states[-1][1] if states else None
        if state == before:
            return
        at = self.moment()
        states.append((at, state))
        if before is not None:
            for kind, text in sentences.changes(replica_id, before, state):
                self.events.append(RecordedEvent(at, replica_id, kind, text))
                at = self.moment()

    def record_faults(self, current: list[tuple[str, list[int]]]) -> None:
        """Record which of the current faults are new, and which faults have ended."""
        ended = {fault.what: fault for fault in self.faults if fault.end is None}
        for what, nodes in current:
            if ended.pop(what, None) is None:
                self.add_event(nodes[0] if nodes else -1, "fault", f"Fault: {what}.")
                self.faults.append(RecordedFault(self.events[-1].at, what, tuple(nodes)))
        for what, fault in ended.items():
            node = fault.nodes[0] if fault.nodes else -1
            self.add_event(node, "fault", f"Ended: {what}.")
            fault.end = self.events[-1].at


class RecordedWorld(World):
    """Records all changes after each event, and those of a replica after each of its steps."""

    def __init__(
        self, seed: int, setting: Setting, trace: Callable[[str], None] | None = None
    ) -> None:
        self.recording = Recording()
        self._cuts: set[tuple[int, int]] = set()
        self._cut_text = ""
        self._faults: list[tuple[str, list[int]]] = []
        #: The state of each stopped replica, with a key of the disk content that it describes.
        self._down: dict[int, tuple[tuple[int, ...], ReplicaState]] = {}
        super().__init__(seed, setting, trace)
        # Nothing has started yet, so the network and the workload can still be replaced.
        self.network = RecordedNetwork(self)
        self.workload = RecordedWorkload(self)

    def schedule(self, when: int, act: Callable[..., None], *arguments: Any) -> None:
        super().schedule(when, self._run_event, act, arguments)

    def _run_event(self, act: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self.recording.time = self.time
        act(*arguments)
        self.record_all()

    def run_until(self, goal: Goal) -> None:
        self.record_all()  # the script may have changed something
        super().run_until(goal)

    def check(self, replica: Replica, core: Any) -> None:
        self.recording.time = self.time
        self.recording.record_replica(replica.id, self.state_of(replica))
        super().check(replica, core)

    def record_all(self) -> None:
        recording = self.recording
        recording.time = self.time
        for replica in self.replicas.values():
            recording.record_replica(replica.id, self.state_of(replica))
        cuts = self.network.cuts
        if cuts != self._cuts:
            self._cuts = set(cuts)
            self._cut_text = sentences.describe_cuts(self.replicas, self.newest_voters().ids, cuts)
            recording.cuts.append((recording.moment(), tuple(sorted(cuts))))
        faults = sentences.current_faults(self, self._cut_text)
        if faults != self._faults:
            self._faults = faults
            recording.record_faults(faults)

    def finish(self) -> None:
        """The run is over."""
        self.record_all()
        self.recording.finish()

    def state_of(self, replica: Replica) -> ReplicaState:
        core = replica.core
        if core is None:
            return self._state_on_disk(replica)
        election, log = core.election, core.log
        voters, votes, targets, voters_at = self._voters_of(replica, log.voters)
        return ReplicaState(
            core.role.name,
            election.epoch,
            election.leader_id,
            -1 if election.voted is None else election.voted.id,
            log.end,
            log.flushed,
            log.high_watermark,
            replica.paused,
            core.election_version > core.durable_election_version,
            tuple(zip(log.epochs.epochs, log.epochs.starts, strict=True)),
            voters,
            votes,
            targets,
            voters_at,
            log.start,
        )

    @staticmethod
    def _voters_of(replica: Replica, history: VoterHistory) -> tuple[Any, ...]:
        """The fields `voters`, `votes`, `targets` and `voters_at` of a ReplicaState."""
        latest = history.latest
        offsets = tuple([offset for offset, _ in history.entries])
        return latest.ids, latest.holds(replica.key), latest.targets, offsets

    def _state_on_disk(self, replica: Replica) -> ReplicaState:
        """The state of a stopped replica, by the content of its disk."""
        disk = replica.disk
        key = replica.incarnation, replica.disk_losses, disk.truncations, disk.start
        cached = self._down.get(replica.id)
        if cached is not None and cached[0] == key:
            return cached[1]
        epochs: dict[int, int] = {}
        history = VoterHistory(replica.bootstrap_voters)
        for batch in disk.batches:
            epochs.setdefault(batch.epoch, batch.base_offset)
            if batch.voters is not None:
                history.append(batch.base_offset, batch.voters)
        ids, votes, targets, voters_at = self._voters_of(replica, history)
        voted = disk.election.voted
        state = ReplicaState(
            "down",
            disk.election.epoch,
            -1,
            -1 if voted is None else voted.id,
            disk.end,
            disk.durable_end,
            0,
            paused=False,
            writing=False,
            epochs=tuple(epochs.items()),
            voters=ids,
            votes=votes,
            targets=targets,
            voters_at=voters_at,
            start=disk.start,
        )
        self._down[replica.id] = key, state
        return state

    # Lines for the page --------------------------------------------------------------------------

    def add_line(self, node: int, kind: str, text: str) -> None:
        self.recording.time = self.time
        self.recording.add_event(node, kind, text)

    def note(self, replica: Replica | None, what: str, detail: Any) -> None:
        super().note(replica, what, detail)
        if what == "starts" and replica is not None:
            disk = replica.disk
            text = sentences.started(replica.id, disk.start, disk.end, disk.election.epoch)
            self.add_line(replica.id, "fault", text)
        elif what == "fault" and detail.kind in sentences.INSTANT_FAULTS:
            self.add_line(-1, "fault", sentences.INSTANT_FAULTS[detail.kind])
        elif what == "requests to":
            self.add_line(-1, "voters", f"The administrator requests to {detail}.")
        elif what == "gets a response":
            self.add_line(-1, "voters", sentences.change_result(*detail))
        elif what == "violation":
            self.add_line(-1, "fault", f"An invariant is violated: {detail}")

    def kill(self, replica: Replica) -> None:
        if replica.core is not None:
            self.add_line(replica.id, "fault", f"The process of {replica.id} is killed.")
        super().kill(replica)

    def lose_power(self, replica: Replica) -> None:
        if replica.core is not None:
            text = f"{replica.id} loses power: unsynced writes may be lost."
            self.add_line(replica.id, "fault", text)
        super().lose_power(replica)


class RecordedNetwork(Network):
    """Records every message, and how it ends."""

    world: RecordedWorld

    def _carry(
        self, source: int, target: int, act: Callable[..., None], arguments: tuple[Any, ...]
    ) -> None:
        world = self.world
        recording = world.recording
        recording.time = world.time
        is_request = act == self._arrive
        return_path, body = arguments[1 if is_request else 0], arguments[-1]
        sender = world.replicas[source]
        recording.record_replica(
            source, world.state_of(sender)
        )  # the cause of the message comes first
        message = recording.add_message(sender, target, return_path, body)
        before = world.sequence
        super()._carry(source, target, self._end_message, (message, act, arguments))
        if world.sequence == before:
            recording.message_ended(message, "lost")

    def _end_message(
        self, message: RecordedMessage, act: Callable[..., None], arguments: tuple[Any, ...]
    ) -> None:
        world = self.world
        world.recording.time = world.time
        target = world.replicas[message.target]
        fate = "arrived"
        requester, incarnation, _ = arguments[1 if message.request is None else 0]
        is_outdated = message.request is not None and requester.incarnation != incarnation
        if (message.source, message.target) in self.cuts or is_outdated:
            fate = "lost"
        elif target.core is None:
            fate = "refused" if target.machine_up else "lost"
        world.recording.message_ended(message, fate)
        act(*arguments)
        world.record_all()


class RecordedWorkload(Workload):
    """Records the requests of clients and their responses."""

    world: RecordedWorld
    _appending_at = -1

    def append_at(self, replica: Replica) -> None:
        self._appending_at = replica.id
        super().append_at(replica)

    def read_at(self, replica: Replica) -> None:
        text = f"A client requests a read offset from {replica.id}."
        self.world.add_line(replica.id, "client", text)
        super().read_at(replica)

    def _record_leaders(self) -> None:
        """Record a commit before the response that follows from it."""
        world = self.world
        for replica_id in world.leaders:
            world.recording.record_replica(replica_id, world.state_of(world.replicas[replica_id]))

    def _record(self, event: Event) -> None:
        node, text = self._appending_at, ""
        match event:
            case Invoked(id=number):
                text = f"A client sends append {number} to {node}."
            case Acknowledged(id=number, offset=offset):
                self._record_leaders()
                node, text = (
                    -1,
                    f"A client learns that append {number} is committed at offset {offset}.",
                )
            case Unknown(id=number):
                node, text = -1, f"A client gives up: the outcome of append {number} is unknown."
            case Failed(id=number):
                node, text = -1, f"A client learns that request {number} failed."
            case ReadAnswered(offset=offset):
                node, text = -1, f"A client may read up to offset {offset}."
        if text:
            self.world.add_line(node, "client", text)
        super()._record(event)
