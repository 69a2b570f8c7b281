"""Records a run for its page.

The world of a recorded run is a `RecordedWorld`; other runs pay nothing for this. Recording draws
no random numbers and adds no events, so that a recorded run equals the original.
"""

from __future__ import annotations

from kraftlog.logstate.voters import VoterHistory
from kraftlog.simulator.checkers.log_history import (
    Acknowledged,
    Failed,
    Invoked,
    ReadAnswered,
    Unknown,
)
from kraftlog.simulator.network import Network
from kraftlog.simulator.page import sentences
from kraftlog.simulator.page.sentences import ReplicaState
from kraftlog.simulator.workload import Workload
from kraftlog.simulator.world import World
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.simulator.checkers.log_history import Event
    from kraftlog.simulator.process import Replica
    from kraftlog.simulator.setting import Setting
    from kraftlog.simulator.world import Goal

#: Virtual ms, and the position among the entries of that ms.
Moment = tuple[int, int]


class Sent(Value):
    """A message; its `fate` is "arrived", "lost", "refused" (no process runs), or "" in flight."""

    sent: Moment
    source: int
    target: int
    kind: str
    body: Any
    request: Any
    fate: str = ""
    lands: Moment | None = None
    event: int = -1
    answer: Any = None


class RecordedEvent(Value):
    """One line of text; `message` is the number of the message that it is about."""

    at: Moment
    node: int
    kind: str
    text: str
    message: int = -1


class Outage(Value):
    """A fault with a duration; `end` is None until it is over."""

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
        self.messages: list[Sent] = []
        self.states: dict[int, list[tuple[Moment, ReplicaState]]] = {}
        self.faults: list[Outage] = []
        self.cuts: list[tuple[Moment, tuple[tuple[int, int], ...]]] = []
        self._requests: dict[tuple[int, int, int], Sent] = {}

    def moment(self) -> Moment:
        place = self.entry_counts[self.time] = self.entry_counts.get(self.time, 0) + 1
        return self.time, place

    def happened(self, node: int, kind: str, text: str, message: int = -1) -> None:
        self.events.append(RecordedEvent(self.moment(), node, kind, text, message))

    def sent(self, source: Replica, target: int, return_path: Any, body: Any) -> Sent:
        """A request, or the response to the request with the same return path."""
        asker, incarnation, number = return_path
        key = asker.id, incarnation, number
        request = self._requests.get(key) if asker.id == target else None
        answered = request.body if request is not None else None
        moment = self.moment()
        message = Sent(moment, source.id, target, sentences.kind_of(body, answered), body, answered)
        if request is None:
            self._requests[key] = message
            text = sentences.request(source.id, target, body)
        else:
            request.answer = body
            text = sentences.answer(source.id, target, body, answered, source.core)
        message.event = len(self.events)
        number = len(self.messages)
        self.messages.append(message)
        self.events.append(RecordedEvent(moment, source.id, message.kind, text, number))
        return message

    def landed(self, message: Sent, fate: str) -> None:
        if message.fate:  # its duplicate
            message = message.replace(event=-1)
            self.messages.append(message)
        message.fate, message.lands = fate, self.moment()

    def finish(self) -> None:
        """Complete each request's line with its fate, which is known now."""
        for message in self.messages:
            if message.event < 0:
                continue
            event = self.events[message.event]
            if message.request is None:
                event.text += sentences.fate_of(message.body, message.fate, message.answer)
            elif message.fate == "lost":
                event.text = f"{event.text[:-1]}: lost."

    # States of replicas --------------------------------------------------------------------------

    def saw_replica(self, who: int, state: ReplicaState) -> None:
        """Record what changed since the last look at this replica."""
        known = self.states.setdefault(who, [])
        before = known[-1][1] if known else None
        if state == before:
            return
        at = self.moment()
        known.append((at, state))
        if before is not None:
            for kind, text in sentences.changes(who, before, state):
                self.events.append(RecordedEvent(at, who, kind, text))
                at = self.moment()

    def saw_conditions(self, found: list[tuple[str, list[int]]]) -> None:
        """Record faults that began or ended since the last look."""
        still_open = {fault.what: fault for fault in self.faults if fault.end is None}
        for what, nodes in found:
            if still_open.pop(what, None) is None:
                self.happened(nodes[0] if nodes else -1, "fault", f"Fault: {what}.")
                self.faults.append(Outage(self.events[-1].at, what, tuple(nodes)))
        for what, fault in still_open.items():
            node = fault.nodes[0] if fault.nodes else -1
            self.happened(node, "fault", f"Ended: {what}.")
            fault.end = self.events[-1].at


class RecordedWorld(World):
    """Looks at everything after each event, and at a replica after each of its steps."""

    def __init__(
        self, seed: int, setting: Setting, trace: Callable[[str], None] | None = None
    ) -> None:
        self.recording = Recording()
        self._cuts: set[tuple[int, int]] = set()
        self._cut_text = ""
        self._wrong: list[tuple[str, list[int]]] = []
        self._down: dict[int, tuple[tuple[int, ...], ReplicaState]] = {}
        super().__init__(seed, setting, trace)
        # Nothing has started yet, so their state equals that of the ones they replace.
        self.network = RecordedNetwork(self)
        self.workload = RecordedWorkload(self)

    def schedule(self, when: int, act: Callable[..., None], *arguments: Any) -> None:
        super().schedule(when, self._happen, act, arguments)

    def _happen(self, act: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self.recording.time = self.time
        act(*arguments)
        self.look()

    def run_until(self, goal: Goal) -> None:
        self.look()  # the script may have changed something
        super().run_until(goal)

    def check(self, replica: Replica, core: Any) -> None:
        self.recording.time = self.time
        self.recording.saw_replica(replica.id, self.state_of(replica))
        super().check(replica, core)

    def look(self) -> None:
        recording = self.recording
        recording.time = self.time
        for replica in self.replicas.values():
            recording.saw_replica(replica.id, self.state_of(replica))
        cuts = self.network.cuts
        if cuts != self._cuts:
            self._cuts = set(cuts)
            self._cut_text = sentences.describe_cuts(self.replicas, self.newest_voters().ids, cuts)
            recording.cuts.append((recording.moment(), tuple(sorted(cuts))))
        wrong = sentences.conditions(self, self._cut_text)
        if wrong != self._wrong:
            self._wrong = wrong
            recording.saw_conditions(wrong)

    def finish(self) -> None:
        """The run is over."""
        self.look()
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
            core.version > core.durable_version,
            tuple(zip(log.epochs.epochs, log.epochs.starts, strict=True)),
            voters,
            votes,
            targets,
            voters_at,
            log.start,
        )

    @staticmethod
    def _voters_of(replica: Replica, history: VoterHistory) -> tuple[Any, ...]:
        latest = history.latest
        places = tuple([offset for offset, _ in history.entries])
        return latest.ids, latest.holds(replica.key), latest.targets, places

    def _state_on_disk(self, replica: Replica) -> ReplicaState:
        """What a stopped replica will find when it starts."""
        disk = replica.disk
        key = replica.incarnation, replica.disk_losses, disk.truncations, disk.start
        known = self._down.get(replica.id)
        if known is not None and known[0] == key:
            return known[1]
        epochs: dict[int, int] = {}
        history = VoterHistory(replica.bootstrap_voters)
        for batch in disk.batches:
            epochs.setdefault(batch.epoch, batch.base_offset)
            if batch.voters is not None:
                history.append(batch.base_offset, batch.voters)
        ids, votes, targets, places = self._voters_of(replica, history)
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
            voters_at=places,
            start=disk.start,
        )
        self._down[replica.id] = key, state
        return state

    # Lines for the page --------------------------------------------------------------------------

    def add_line(self, node: int, kind: str, text: str) -> None:
        self.recording.time = self.time
        self.recording.happened(node, kind, text)

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
    """Follows every message to its end."""

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
        recording.saw_replica(source, world.state_of(sender))  # first the cause of the message
        message = recording.sent(sender, target, return_path, body)
        before = world.sequence
        super()._carry(source, target, self._land, (message, act, arguments))
        if world.sequence == before:
            recording.landed(message, "lost")

    def _land(self, message: Sent, act: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        world = self.world
        world.recording.time = world.time
        target = world.replicas[message.target]
        fate = "arrived"
        asker, incarnation, _ = arguments[1 if message.request is None else 0]
        of_another_incarnation = message.request is not None and asker.incarnation != incarnation
        if (message.source, message.target) in self.cuts or of_another_incarnation:
            fate = "lost"
        elif target.core is None:
            fate = "refused" if target.machine_up else "lost"
        world.recording.landed(message, fate)
        act(*arguments)
        world.look()


class RecordedWorkload(Workload):
    """Records the requests of clients and their responses."""

    world: RecordedWorld
    _asked_replica = -1

    def append_at(self, replica: Replica) -> None:
        self._asked_replica = replica.id
        super().append_at(replica)

    def read_at(self, replica: Replica) -> None:
        who = replica.id
        self.world.add_line(who, "client", f"A client requests a read offset from {who}.")
        super().read_at(replica)

    def _look_at_leaders(self) -> None:
        """Show a commit before its consequences."""
        world = self.world
        for who in world.leaders:
            world.recording.saw_replica(who, world.state_of(world.replicas[who]))

    def _record(self, event: Event) -> None:
        node, text = self._asked_replica, ""
        match event:
            case Invoked(id=number):
                text = f"A client sends append {number} to {node}."
            case Acknowledged(id=number, offset=offset):
                self._look_at_leaders()
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
