"""All brokers, the metadata and the messages between them: the states, and their moves.

A state is a tuple of numbers: the brokers, the metadata, the history, and a message or 0 for each
place on the wire. What an event does depends on the broker (or the metadata) and the event alone,
and the same broker occurs in thousands of states, so it is computed once, by the real objects.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.metadata.values import NO_LEADER
from kraftlog.simulator.explorer.bounds import NODES
from kraftlog.simulator.explorer.replication.broker import Broker, broker_key, objects, step
from kraftlog.simulator.explorer.replication.invariants import (
    History,
    check_shutdown,
    check_state,
    check_step,
)
from kraftlog.simulator.explorer.replication.metadata import PREFERRED, UNCLEAN, Metadata
from kraftlog.simulator.explorer.replication.process import FetchAnswered, FetchSent
from kraftlog.simulator.explorer.tables import Numbers
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from kraftlog.metadata.values import BrokerImage, PartitionImage
    from kraftlog.simulator.explorer.replication.bounds import Bound

    State = tuple[int, ...]
    #: The kind of the move; its place or broker; its argument.
    Move = tuple[str, int, Any]

#: The positions of metadata and history in a state, after the brokers.
METADATA, HISTORY = NODES, NODES + 1
#: LATE is a request that another has overtaken.
REQUEST, RESPONSE, LATE = range(3)
#: The places in a state: the follower, the leader, and the kind of message.
_PAIRS = [(one, other) for one in range(NODES) for other in range(NODES) if one != other]
PLACES = {
    HISTORY + 1 + number: (*pair, kind)
    for number, (kind, pair) in enumerate([(kind, pair) for kind in range(3) for pair in _PAIRS])
}
PLACE_OF = {place: number for number, place in PLACES.items()}
#: Which broker receives what is at a place.
TARGET = {
    number: follower if kind == RESPONSE else leader
    for number, (follower, leader, kind) in PLACES.items()
}
#: The events whose number is bounded, in the order of `History.left`.
BOUNDED = (
    *("produce", "fence", "return", "elect", "lag", "crash", "lose power", "lose"),
    *("alter isr", "lose isr response", "elect unclean"),
    *("shut down", "reassign", "cancel", "delete"),
)
#: The heartbeats of brokers, which say how much of the metadata they have replayed.
HEARTBEATS = {"return", "report", "shut down", "leave"}


class Things:
    """Everything of one kind that has occurred; number 0 is nothing."""

    def __init__(self, make_key: Callable[[Any], Any], learn: Callable[[Any], Any]) -> None:
        self._make_key = make_key
        self._learn = learn
        self._numbers = Numbers()
        self._things: list[Any] = [None]
        #: What the search needs to know of each.
        self.facts: list[Any] = [None]

    def number(self, thing: Any) -> int:
        number = self._numbers.of(self._make_key(thing))
        if number == len(self._things):
            self._things.append(thing)
            self.facts.append(self._learn(thing))
        return number

    def __getitem__(self, number: int) -> Any:
        return self._things[number]

    def __len__(self) -> int:
        return len(self._things)


#: What no broker has not replayed.
ALL = 1 << 30


class BrokerFacts(Value):
    is_up: bool
    #: Its own moves.
    moves: tuple[Move, ...]
    #: How many batches of the metadata log it has replayed; `ALL` while it is down.
    replayed: int
    #: The followers whose fetches it holds.
    holds: tuple[int, ...]
    #: The leaders that it waits for, and those whose response it would use.
    waits_for: tuple[int, ...]
    uses: tuple[int, ...]
    high_watermark: int
    #: The number of its AlterPartition, or 0.
    isr_request: int


class MetadataFacts(Value):
    moves: tuple[Move, ...]
    #: The numbers of all batches.
    batches: tuple[int, ...]


class Cluster:
    """The states and moves within a bound."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.brokers = Things(broker_key, self._broker_facts)
        self.metadata = Things(_metadata_key, self._metadata_facts)
        self.histories = Things(_history_key, lambda history: history.left)
        self.messages = Things(objects.key, _is_refusal)
        self._steps: dict[tuple[int, str, Any], tuple[int, tuple[tuple[int, int], ...]]] = {}
        self._decisions: dict[tuple[int, str, Any], tuple[int, Any]] = {}
        self._noted: dict[tuple[int, int], int] = {}
        self._trimmed: dict[tuple[int, int], int] = {}
        self._checked: set[State] = set()
        self.first = self._first()

    def _first(self) -> State:
        bound = self.bound
        metadata = Metadata(bound)
        budget = (
            *(bound.records, bound.fences, bound.returns, bound.elections, bound.lags),
            *(bound.crashes, bound.power_losses, bound.losses, bound.isr_changes, bound.losses),
            *(bound.unclean, bound.shutdowns),
            *(bound.reassignments, bound.cancellations, bound.deletions),
        )
        places = len(PLACES) if bound.losses else 2 * len(_PAIRS)
        state = [0] * (HISTORY + 1 + places)
        state[METADATA] = self.metadata.number(metadata)
        state[HISTORY] = self.histories.number(History(budget))
        for broker_id in range(NODES):
            state[broker_id] = self.brokers.number(Broker(broker_id, has_slow_disk=bound.slow_disk))
        for broker_id in bound.brokers:
            self._start(state, broker_id, broker_id)
        self._trim(state)
        return tuple(state)

    # What may happen -----------------------------------------------------------------------------

    def moves(self, state: State) -> list[Move]:
        left = dict(zip(BOUNDED, self.histories.facts[state[HISTORY]], strict=True))
        facts = [self.brokers.facts[number] for number in state[:NODES]]
        metadata = self.metadata.facts[state[METADATA]]
        found: list[Move] = []
        for place in range(HISTORY + 1, len(state)):
            if state[place] and facts[TARGET[place]].is_up:
                found.append(("deliver", place, None))
                if self.bound.losses and self._is_awaited(state, place):
                    found.append(("lose", place, None))
        for broker_id, known in enumerate(facts):
            if known.is_up and known.replayed < len(metadata.batches):
                found.append(("replay", broker_id, metadata.batches[known.replayed]))
            found += [it for it in known.moves if it[0] != EXPIRE or _has_news(facts, it)]
        for move in metadata.moves:
            if move[0] not in HEARTBEATS or facts[move[2]].is_up:
                found.append(move)
        return [move for move in found if left.get(move[0], 1)]

    def after(self, state: State, move: Move) -> State:
        """The state after a move; raises Broken or AssertionError if a rule is broken."""
        what, where, about = move
        following = list(state)
        if what in BOUNDED:
            history = self.histories[state[HISTORY]]
            kind = BOUNDED.index(what)
            left = tuple([n - (number == kind) for number, n in enumerate(history.left)])
            following[HISTORY] = self.histories.number(history.replace(left=left))
        if where > HISTORY:
            self._deliver(following, what, where)
        elif where == METADATA and what in HEARTBEATS:
            self._beat(following, what, about)
        elif where == METADATA:
            self._decide(following, what, about)
            if what == "elect unclean":
                self._note_loss(following)
        elif what in {"crash", "lose power"}:
            self._crash(following, where, about)
        elif what == "restart":
            _, epoch = self._decide(following, "register", where)
            self._start(following, where, epoch)
        elif what in {"alter isr", "lose isr response"}:
            _, response = self._decide(following, "alter partition", about)
            heard = None if what == "lose isr response" else response
            self._happen(following, where, "isr_answered", self.messages.number(heard))
        else:
            self._happen(following, where, _EVENTS[what], about)
        self._trim(following)
        return tuple(following)

    def check(self, state: State) -> None:
        """Raise Broken if this state breaks an invariant."""
        seen = state[: HISTORY + 1]
        if seen not in self._checked:
            self._checked.add(seen)
            brokers = [self.brokers[number] for number in state[:NODES]]
            check_state(brokers, self.metadata[state[METADATA]], self.histories[state[HISTORY]])

    # One move ------------------------------------------------------------------------------------

    def _deliver(self, state: list[int], what: str, place: int) -> None:
        follower, leader, kind = PLACES[place]
        message = state[place]
        if what == "lose":  # a request for which the follower no longer waits may still arrive
            if kind == REQUEST:
                state[place] = self._abandoned(message)
            else:
                state[place] = 0
            self._happen(state, follower, "fetch_failed", (leader,))
            return
        state[place] = 0
        if kind == RESPONSE:
            self._happen(state, follower, "take", message)
        else:
            self._happen(state, leader, "serve", message)

    def _is_awaited(self, state: State, place: int) -> bool:
        """Whether a follower waits for a response, or for that to a request."""
        follower, leader, kind = PLACES[place]
        return kind != LATE and leader in self.brokers.facts[state[follower]].waits_for

    def _abandoned(self, message: int) -> int:
        return self.messages.number(self.messages[message].replace(is_awaited=False))

    def _happen(self, state: list[int], broker_id: int, event: str, about: Any) -> None:
        """An event at a broker; messages and metadata by their numbers."""
        made = (state[broker_id], event, about)
        taken = self._steps.get(made)
        if taken is None:
            taken = self._steps[made] = self._take(*made)
        state[broker_id], sent = taken
        for place, message in sent:
            self._send(state, place, message)
        self._note(state, broker_id)
        self._drop_unused(state, broker_id)

    def _drop_unused(self, state: list[int], broker_id: int) -> None:
        """Deliver responses that make no difference, as they only delay the next request."""
        for leader in self.brokers.facts[state[broker_id]].waits_for:
            place = PLACE_OF[broker_id, leader, RESPONSE]
            message = state[place]
            if message and (
                self.messages.facts[message]
                or leader not in self.brokers.facts[state[broker_id]].uses
            ):
                state[place] = 0
                self._happen(state, broker_id, "take", message)
                return

    def _take(self, number: int, event: str, about: Any) -> tuple[int, tuple[tuple[int, int], ...]]:
        broker = self.brokers[number]
        taken = step(broker, event, self.arguments(event, about))
        check_step(broker, taken.broker, may_lose=self.bound.unclean > 0)
        sent = [(_place(message), self.messages.number(message)) for message in taken.sent]
        return self.brokers.number(taken.broker), tuple(sent)

    def arguments(self, event: str, about: Any) -> tuple[Any, ...]:
        """What an event is about, in place of numbers."""
        if event in _BY_NUMBER:
            return (self.messages[about],)
        if event == "restart":
            epoch, metadata = about
            return epoch, self.metadata[metadata].batches
        arguments: tuple[Any, ...] = about
        return arguments

    def _send(self, state: list[int], place: int, message: int) -> None:
        follower, leader, kind = PLACES[place]
        if kind == REQUEST:  # it waits no longer for the response to an earlier one
            state[PLACE_OF[follower, leader, RESPONSE]] = 0
            self._forget(state, leader, follower)
            if state[place] and self.bound.losses:
                state[PLACE_OF[follower, leader, LATE]] = self._abandoned(state[place])
        state[place] = message
        if kind == RESPONSE:
            self._drop_unused(state, follower)

    def _forget(self, state: list[int], leader: int, follower: int) -> None:
        if follower in self.brokers.facts[state[leader]].holds:
            self._happen(state, leader, "forget", (follower,))

    def _start(self, state: list[int], broker_id: int, epoch: int) -> None:
        self._happen(state, broker_id, "restart", (epoch, state[METADATA]))

    def _crash(self, state: list[int], broker_id: int, about: Any) -> None:
        """A process ends; its connections are reset, but its last request may arrive."""
        waiting = self.brokers.facts[state[broker_id]].waits_for
        self._happen(state, broker_id, "crash", about)
        for leader in waiting:
            state[PLACE_OF[broker_id, leader, RESPONSE]] = 0
            self._forget(state, leader, broker_id)
            place = PLACE_OF[broker_id, leader, REQUEST]
            if state[place]:
                state[place] = self._abandoned(state[place])
        for follower in range(NODES):
            if follower != broker_id and broker_id in self.brokers.facts[state[follower]].waits_for:
                places = [PLACE_OF[follower, broker_id, kind] for kind in (REQUEST, RESPONSE)]
                if not any(state[place] for place in places):
                    self._happen(state, follower, "fetch_failed", (broker_id,))

    def _beat(self, state: list[int], what: str, broker_id: int) -> None:
        """A heartbeat of a broker; one that may stop then ends its process."""
        metadata = self.metadata[state[METADATA]]
        offset = metadata.offset_of(self.brokers.facts[state[broker_id]].replayed)
        _, response = self._decide(state, what, (broker_id, offset))
        if not response.should_shut_down:
            return
        replayed = {
            it: self.brokers.facts[state[it]].replayed for it in range(NODES) if it != broker_id
        }
        check_shutdown(broker_id, metadata, self.metadata[state[METADATA]], replayed)
        broker = self.brokers[state[broker_id]]
        self._crash(state, broker_id, (broker.log.end, len(broker.known_committed)))

    def _decide(self, state: list[int], what: str, about: Any) -> tuple[int, Any]:
        made = (state[METADATA], what, about)
        taken = self._decisions.get(made)
        if taken is None:
            metadata = objects.copy(self.metadata[state[METADATA]])
            response = _DECISIONS[what](metadata, about, self.messages)
            taken = self._decisions[made] = self.metadata.number(metadata), response
        state[METADATA] = taken[0]
        return taken

    def _note(self, state: list[int], broker_id: int) -> None:
        noted = (state[HISTORY], state[broker_id])
        history = self._noted.get(noted)
        if history is None:
            after = self.histories[noted[0]].with_broker(self.brokers[noted[1]])
            history = self._noted[noted] = self.histories.number(after)
        state[HISTORY] = history

    def _note_loss(self, state: list[int]) -> None:
        """The new leader may lack what was committed."""
        partition = self.metadata[state[METADATA]].partition
        if partition.leader != NO_LEADER:
            history = self.histories[state[HISTORY]]
            after = history.with_unclean_election(partition.topic_id, partition.leader_epoch)
            state[HISTORY] = self.histories.number(after)

    def _trim(self, state: list[int]) -> None:
        """Batches that all have replayed do not distinguish states."""
        oldest = min([self.brokers.facts[number].replayed for number in state[:NODES]])
        made = (state[METADATA], oldest)
        number = self._trimmed.get(made)
        if number is None:
            metadata = self.metadata[made[0]]
            if metadata.oldest != oldest:
                metadata = objects.copy(metadata)
                metadata.oldest = oldest
            number = self._trimmed[made] = self.metadata.number(metadata)
        state[METADATA] = number

    # Facts ---------------------------------------------------------------------------------------

    def _broker_facts(self, broker: Broker) -> BrokerFacts:
        process = broker.process
        if process is None:
            is_replica = broker.id in self.bound.brokers
            moves: tuple[Move, ...] = (("restart", broker.id, None),) if is_replica else ()
            return BrokerFacts(False, moves, ALL, (), (), (), 0, 0)
        request = process.isr_request
        number = 0 if request is None else self.messages.number(request)
        return BrokerFacts(
            is_up=True,
            moves=tuple(_moves_of(broker, number, self.bound)),
            replayed=process.replayed,
            holds=tuple(process.parked),
            waits_for=tuple(sorted(process.waits_for)),
            uses=tuple([leader for leader in process.waits_for if process.uses(leader)]),
            high_watermark=len(broker.known_committed),
            isr_request=number,
        )

    def _metadata_facts(self, metadata: Metadata) -> MetadataFacts:
        moves: list[Move] = [
            (what, METADATA, broker.id)
            for broker in metadata.brokers.values()
            for what in _heartbeats_of(broker, metadata)
        ]
        partition = metadata.partition
        if partition is None:
            if metadata.can_be_created:
                moves.append(("create", METADATA, None))
        else:
            moves += _changes_of(partition, self.bound)
        batches = [self.messages.number(batch) for batch in metadata.batches]
        return MetadataFacts(tuple(moves), tuple(batches))


#: A fetch has waited at the leader for its max.wait.ms.
EXPIRE = "expire delayed fetch"
#: The broker's method for a move.
_EVENTS = {
    "produce": "produce",
    "replay": "replay",
    EXPIRE: "expire",
    "lag": "lags",
    "truncate": "truncate",
    "write": "write",
}
#: Events that are about a message or a batch.
_BY_NUMBER = {"serve", "take", "replay", "isr_answered"}
_DECISIONS: dict[str, Callable[[Metadata, Any, Things], Any]] = {
    "fence": lambda metadata, broker, _: metadata.session_ends(broker),
    "return": lambda metadata, about, _: metadata.heartbeat(*about),
    "report": lambda metadata, about, _: metadata.heartbeat(*about),
    "shut down": lambda metadata, about, _: metadata.shut_down(*about),
    "leave": lambda metadata, about, _: metadata.shut_down(*about),
    "reassign": lambda metadata, replicas, _: metadata.reassign(replicas),
    "cancel": lambda metadata, _, __: metadata.reassign(None),
    "delete": lambda metadata, _, __: metadata.delete(),
    "create": lambda metadata, _, __: metadata.create(),
    "elect": lambda metadata, kind, _: metadata.elect(kind),
    "elect unclean": lambda metadata, kind, _: metadata.elect(kind),
    "register": lambda metadata, broker, _: metadata.register(broker),
    "alter partition": lambda metadata, number, messages: metadata.decide(
        ApiKey.ALTER_PARTITION, messages[number]
    ),
}


def _heartbeats_of(broker: BrokerImage, metadata: Metadata) -> Iterator[str]:
    """What a broker may tell the controller, or not, by its heartbeats."""
    if broker.id in metadata.leaving:
        yield "leave"
    elif broker.fenced:
        yield "return"
    else:
        yield "shut down"
        if metadata.waits_for(broker.id):
            yield "report"
    if not broker.fenced:
        yield "fence"


def _changes_of(partition: PartitionImage, bound: Bound) -> Iterator[Move]:
    """What an administrator may change."""
    if partition.leader != partition.replicas[0] in partition.isr:
        yield "elect", METADATA, PREFERRED
    if partition.leader == NO_LEADER:
        yield "elect unclean", METADATA, UNCLEAN
    kept = tuple([it for it in partition.replicas if it not in partition.removing])
    for target in bound.targets:
        if target != kept:
            yield "reassign", METADATA, target
    if partition.reassigning:
        yield "cancel", METADATA, None
    yield "delete", METADATA, None


def _moves_of(broker: Broker, isr_request: int, bound: Bound) -> list[Move]:
    """What can happen at a running broker."""
    process, me = broker.process, broker.id
    assert process is not None
    partition = process.partition
    end, committed = broker.log.end, len(broker.known_committed)
    found: list[Move] = [("crash", me, (end, 0))]
    if committed:  # the checkpoint may be new or old
        found.append(("crash", me, (end, committed)))
    found += [("lose power", me, (kept, 0)) for kept in range(end)]
    if isr_request:
        found.append(("alter isr", me, isr_request))
        if bound.losses:
            found.append(("lose isr response", me, isr_request))
    found += [(EXPIRE, me, (follower,)) for follower in process.parked]
    if process.truncations:
        found.append(("truncate", me, ()))
    if process.unreported:
        found.append(("write", me, ()))
    if partition is not None and partition.online:
        found.append(("produce", me, ()))
        followers = partition.followers
        if followers is not None and partition.proposed is None:
            found += [
                ("lag", me, (follower.broker_id,))
                for follower in followers.by_broker.values()
                if follower.broker_id in partition.isr and follower.end != partition.written_end
            ]
    return found


def _has_news(facts: Sequence[BrokerFacts], expires: Move) -> bool:
    """Whether the response to a fetch that has waited has a new high watermark."""
    _, leader, (follower,) = expires
    known = facts[follower]
    return leader in known.uses and facts[leader].high_watermark > known.high_watermark


def _is_refusal(message: Any) -> bool:
    """Whether a response only refuses a fetch."""
    if not isinstance(message, FetchAnswered):
        return False
    [data] = message.response.responses[0].partitions
    return data.error_code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)


def _place(message: Any) -> int:
    """Where a message that is sent is put."""
    kind = REQUEST if isinstance(message, FetchSent) else RESPONSE
    return PLACE_OF[message.follower, message.leader, kind]


def _metadata_key(metadata: Metadata) -> Any:
    state = metadata.controller.state
    suffix = metadata.batches[metadata.oldest :]
    elected = tuple(sorted(metadata.elected.items()))
    image = objects.key((state.brokers, state.partitions, suffix))
    waited_for = tuple([broker for broker in state.brokers if metadata.waits_for(broker)])
    leaving = tuple(sorted(metadata.leaving.items())), metadata.stopped, waited_for
    return len(metadata.batches), elected, image, metadata.topics, leaving


def _history_key(history: History) -> Any:
    return history.left, history.committed, history.unclean, history.broken
