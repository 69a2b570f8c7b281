"""All brokers, the metadata and the messages between them: the states, and their moves.

A state is a tuple of numbers: the brokers, the metadata, the history, and a message or 0 for each
place on the wire. The result of an event depends on the broker (or the metadata) and the event
alone, and the same broker occurs in thousands of states, so each result is computed once, by the
real objects.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.metadata.values import NO_LEADER
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.apis import ApiKey
from kraftlog_simulator.explorer.bounds import NODES
from kraftlog_simulator.explorer.replication.broker import Broker, broker_key, objects, step
from kraftlog_simulator.explorer.replication.invariants import (
    History,
    check_shutdown,
    check_state,
    check_step,
)
from kraftlog_simulator.explorer.replication.metadata import PREFERRED, UNCLEAN, Metadata
from kraftlog_simulator.explorer.replication.process import FetchMessage, FetchResponseMessage
from kraftlog_simulator.explorer.tables import Numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from kraftlog.metadata.values import BrokerImage, PartitionImage
    from kraftlog_simulator.explorer.replication.bounds import Bound

    State = tuple[int, ...]
    #: The kind of the move; its place or broker; its argument.
    Move = tuple[str, int, Any]

#: The positions of metadata and history in a state, after the brokers.
METADATA, HISTORY = NODES, NODES + 1
#: LATE is a request that a newer one has overtaken.
REQUEST, RESPONSE, LATE = range(3)
_PAIRS = [
    (follower, leader) for follower in range(NODES) for leader in range(NODES) if follower != leader
]
#: By place, a position in a state from HISTORY + 1 on: follower, leader and kind of the message.
PLACES = {
    HISTORY + 1 + position: (*pair, kind)
    for position, (kind, pair) in enumerate([(kind, pair) for kind in range(3) for pair in _PAIRS])
}
PLACE_OF = {description: place for place, description in PLACES.items()}
#: By place, the broker that receives the message there.
TARGET = {
    place: follower if kind == RESPONSE else leader
    for place, (follower, leader, kind) in PLACES.items()
}
#: The events whose number is bounded, in the order of `History.remaining`.
BOUNDED = (
    *("produce", "fence", "return", "elect", "lag", "crash", "lose power", "lose"),
    *("alter isr", "lose isr response", "elect unclean"),
    *("shut down", "reassign", "cancel", "delete"),
)
#: The moves that are heartbeats of brokers, which report how much metadata they have replayed.
HEARTBEATS = {"return", "report", "shut down", "leave"}


class FactTable:
    """A number for each broker, metadata, history or message that has occurred; 0 is none."""

    def __init__(self, make_key: Callable[[Any], Any], make_facts: Callable[[Any], Any]) -> None:
        self._make_key = make_key
        self._make_facts = make_facts
        self._numbers = Numbers()
        self._things: list[Any] = [None]
        #: By number: the facts that the search needs.
        self.facts: list[Any] = [None]

    def number(self, thing: Any) -> int:
        number = self._numbers.of(self._make_key(thing))
        if number == len(self._things):
            self._things.append(thing)
            self.facts.append(self._make_facts(thing))
        return number

    def __getitem__(self, number: int) -> Any:
        return self._things[number]

    def __len__(self) -> int:
        return len(self._things)


#: More batches than the metadata log ever has: as if a broker that is down had replayed all.
ALL_BATCHES = 1 << 30


class BrokerFacts(Value):
    """What the search needs to know about a broker."""

    is_up: bool
    #: Its own moves.
    moves: tuple[Move, ...]
    #: How many batches of the metadata log it has replayed; `ALL_BATCHES` while it is down.
    replayed: int
    #: The followers whose fetches it holds.
    holds: tuple[int, ...]
    #: The leaders whose response it waits for, and those whose response would have an effect.
    waits_for: tuple[int, ...]
    useful_leaders: tuple[int, ...]
    high_watermark: int
    #: The number of its AlterPartition, or 0.
    isr_request: int


class MetadataFacts(Value):
    """What the search needs to know about the metadata."""

    moves: tuple[Move, ...]
    #: The numbers of all batches.
    batches: tuple[int, ...]


class Cluster:
    """The states and moves within a bound."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.brokers = FactTable(broker_key, self._broker_facts)
        self.metadata = FactTable(_metadata_key, self._metadata_facts)
        self.histories = FactTable(_history_key, lambda history: history.remaining)
        #: Fetch messages, AlterPartition messages and metadata batches.
        self.messages = FactTable(objects.key, _is_refusal)
        #: By broker, event and argument: the broker after it, and what it sent: (place, message).
        self._steps: dict[tuple[int, str, Any], tuple[int, tuple[tuple[int, int], ...]]] = {}
        #: By metadata, decision and argument: the metadata after it, and the response.
        self._decisions: dict[tuple[int, str, Any], tuple[int, Any]] = {}
        #: By history and broker: the history with what the broker adds.
        self._extended: dict[tuple[int, int], int] = {}
        #: By metadata and its new `oldest`: the metadata with that.
        self._trimmed: dict[tuple[int, int], int] = {}
        self._checked: set[State] = set()
        self.first = self._first_state()

    def _first_state(self) -> State:
        bound = self.bound
        metadata = Metadata(bound)
        budget = (
            *(bound.records, bound.fencings, bound.unfencings, bound.elections, bound.lags),
            *(bound.crashes, bound.power_losses, bound.losses, bound.isr_changes, bound.losses),
            *(bound.unclean_elections, bound.shutdowns),
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

    # Moves ---------------------------------------------------------------------------------------

    def moves(self, state: State) -> list[Move]:
        remaining = dict(zip(BOUNDED, self.histories.facts[state[HISTORY]], strict=True))
        facts = [self.brokers.facts[number] for number in state[:NODES]]
        metadata = self.metadata.facts[state[METADATA]]
        moves: list[Move] = []
        for place in range(HISTORY + 1, len(state)):
            if state[place] and facts[TARGET[place]].is_up:
                moves.append(("deliver", place, None))
                if self.bound.losses and self._is_awaited(state, place):
                    moves.append(("lose", place, None))
        for broker_id, broker in enumerate(facts):
            if broker.is_up and broker.replayed < len(metadata.batches):
                moves.append(("replay", broker_id, metadata.batches[broker.replayed]))
            moves += [move for move in broker.moves if move[0] != EXPIRE or _has_news(facts, move)]
        for move in metadata.moves:
            if move[0] not in HEARTBEATS or facts[move[2]].is_up:
                moves.append(move)
        return [move for move in moves if remaining.get(move[0], 1)]

    def after(self, state: State, move: Move) -> State:
        """The state after a move; raises Broken or AssertionError if a rule is broken."""
        what, where, argument = move
        next_state = list(state)
        if what in BOUNDED:
            history = self.histories[state[HISTORY]]
            kind = BOUNDED.index(what)
            remaining = tuple(
                [count - (number == kind) for number, count in enumerate(history.remaining)]
            )
            next_state[HISTORY] = self.histories.number(history.replace(remaining=remaining))
        if where > HISTORY:
            self._deliver(next_state, what, where)
        elif where == METADATA and what in HEARTBEATS:
            self._heartbeat(next_state, what, argument)
        elif where == METADATA:
            self._decide(next_state, what, argument)
            if what == "elect unclean":
                self._note_loss(next_state)
        elif what in {"crash", "lose power"}:
            self._crash(next_state, where, argument)
        elif what == "restart":
            _, epoch = self._decide(next_state, "register", where)
            self._start(next_state, where, epoch)
        elif what in {"alter isr", "lose isr response"}:
            _, response = self._decide(next_state, "alter partition", argument)
            outcome = None if what == "lose isr response" else response
            self._apply(next_state, where, "receive_isr_response", self.messages.number(outcome))
        else:
            self._apply(next_state, where, _EVENTS[what], argument)
        self._trim(next_state)
        return tuple(next_state)

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
            self._apply(state, follower, "fetch_failed", (leader,))
            return
        state[place] = 0
        if kind == RESPONSE:
            self._apply(state, follower, "receive_response", message)
        else:
            self._apply(state, leader, "receive_fetch", message)

    def _is_awaited(self, state: State, place: int) -> bool:
        """Whether a follower waits for this response, or for the response to this request."""
        follower, leader, kind = PLACES[place]
        return kind != LATE and leader in self.brokers.facts[state[follower]].waits_for

    def _abandoned(self, message: int) -> int:
        return self.messages.number(self.messages[message].replace(is_awaited=False))

    def _apply(self, state: list[int], broker_id: int, event: str, argument: Any) -> None:
        """Apply an event to a broker; its argument has messages and metadata as numbers."""
        step_key = (state[broker_id], event, argument)
        result = self._steps.get(step_key)
        if result is None:
            result = self._steps[step_key] = self._compute_step(*step_key)
        state[broker_id], sent = result
        for place, message in sent:
            self._send(state, place, message)
        self._extend_history(state, broker_id)
        self._deliver_ineffective_response(state, broker_id)

    def _deliver_ineffective_response(self, state: list[int], broker_id: int) -> None:
        """Deliver a response without effect at once: until then it only delays the next request."""
        for leader in self.brokers.facts[state[broker_id]].waits_for:
            place = PLACE_OF[broker_id, leader, RESPONSE]
            message = state[place]
            if message and (
                self.messages.facts[message]
                or leader not in self.brokers.facts[state[broker_id]].useful_leaders
            ):
                state[place] = 0
                self._apply(state, broker_id, "receive_response", message)
                return

    def _compute_step(
        self, number: int, event: str, argument: Any
    ) -> tuple[int, tuple[tuple[int, int], ...]]:
        broker = self.brokers[number]
        result = step(broker, event, self.arguments(event, argument))
        check_step(broker, result.broker, may_lose=self.bound.unclean_elections > 0)
        sent = [(_place(message), self.messages.number(message)) for message in result.sent]
        return self.brokers.number(result.broker), tuple(sent)

    def arguments(self, event: str, argument: Any) -> tuple[Any, ...]:
        """The arguments of an event: objects in place of their numbers."""
        if event in _BY_NUMBER:
            return (self.messages[argument],)
        if event == "restart":
            epoch, metadata = argument
            return epoch, self.metadata[metadata].batches
        arguments: tuple[Any, ...] = argument
        return arguments

    def _send(self, state: list[int], place: int, message: int) -> None:
        follower, leader, kind = PLACES[place]
        if kind == REQUEST:  # the follower no longer waits for the response to an earlier request
            state[PLACE_OF[follower, leader, RESPONSE]] = 0
            self._forget(state, leader, follower)
            if state[place] and self.bound.losses:
                state[PLACE_OF[follower, leader, LATE]] = self._abandoned(state[place])
        state[place] = message
        if kind == RESPONSE:
            self._deliver_ineffective_response(state, follower)

    def _forget(self, state: list[int], leader: int, follower: int) -> None:
        if follower in self.brokers.facts[state[leader]].holds:
            self._apply(state, leader, "forget", (follower,))

    def _start(self, state: list[int], broker_id: int, epoch: int) -> None:
        self._apply(state, broker_id, "restart", (epoch, state[METADATA]))

    def _crash(self, state: list[int], broker_id: int, argument: Any) -> None:
        """A process ends, and its connections with it, but its last request may still arrive."""
        waiting = self.brokers.facts[state[broker_id]].waits_for
        self._apply(state, broker_id, "crash", argument)
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
                    self._apply(state, follower, "fetch_failed", (broker_id,))

    def _heartbeat(self, state: list[int], what: str, broker_id: int) -> None:
        """A broker sends a heartbeat; if the response lets it shut down, its process ends."""
        metadata = self.metadata[state[METADATA]]
        offset = metadata.offset_of(self.brokers.facts[state[broker_id]].replayed)
        _, response = self._decide(state, what, (broker_id, offset))
        if not response.should_shut_down:
            return
        replayed = {
            other: self.brokers.facts[state[other]].replayed
            for other in range(NODES)
            if other != broker_id
        }
        check_shutdown(broker_id, metadata, self.metadata[state[METADATA]], replayed)
        broker = self.brokers[state[broker_id]]
        self._crash(state, broker_id, (broker.log.end, len(broker.known_committed)))

    def _decide(self, state: list[int], what: str, argument: Any) -> tuple[int, Any]:
        decision_key = (state[METADATA], what, argument)
        result = self._decisions.get(decision_key)
        if result is None:
            metadata = objects.copy(self.metadata[state[METADATA]])
            response = _DECISIONS[what](metadata, argument, self.messages)
            result = self._decisions[decision_key] = self.metadata.number(metadata), response
        state[METADATA] = result[0]
        return result

    def _extend_history(self, state: list[int], broker_id: int) -> None:
        pair = (state[HISTORY], state[broker_id])
        history = self._extended.get(pair)
        if history is None:
            after = self.histories[pair[0]].with_broker(self.brokers[pair[1]])
            history = self._extended[pair] = self.histories.number(after)
        state[HISTORY] = history

    def _note_loss(self, state: list[int]) -> None:
        """After an unclean election the new leader may lack committed records."""
        partition = self.metadata[state[METADATA]].partition
        if partition.leader != NO_LEADER:
            history = self.histories[state[HISTORY]]
            after = history.with_unclean_election(partition.topic_id, partition.leader_epoch)
            state[HISTORY] = self.histories.number(after)

    def _trim(self, state: list[int]) -> None:
        """Let the state's key omit the metadata batches that every running broker has replayed."""
        oldest = min([self.brokers.facts[number].replayed for number in state[:NODES]])
        pair = (state[METADATA], oldest)
        number = self._trimmed.get(pair)
        if number is None:
            metadata = self.metadata[pair[0]]
            if metadata.oldest != oldest:
                metadata = objects.copy(metadata)
                metadata.oldest = oldest
            number = self._trimmed[pair] = self.metadata.number(metadata)
        state[METADATA] = number

    # Facts ---------------------------------------------------------------------------------------

    def _broker_facts(self, broker: Broker) -> BrokerFacts:
        process = broker.process
        if process is None:
            is_replica = broker.id in self.bound.brokers
            moves: tuple[Move, ...] = (("restart", broker.id, None),) if is_replica else ()
            return BrokerFacts(False, moves, ALL_BATCHES, (), (), (), 0, 0)
        request = process.isr_request
        number = 0 if request is None else self.messages.number(request)
        return BrokerFacts(
            is_up=True,
            moves=tuple(_moves_of(broker, number, self.bound)),
            replayed=process.replayed,
            holds=tuple(process.parked),
            waits_for=tuple(sorted(process.waits_for)),
            useful_leaders=tuple(
                [leader for leader in process.waits_for if process.would_use_response_of(leader)]
            ),
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
#: The method of the broker's process for each move.
_EVENTS = {
    "produce": "produce",
    "replay": "replay",
    EXPIRE: "expire",
    "lag": "lags",
    "truncate": "truncate",
    "write": "write",
}
#: Events whose argument is the number of a message or a metadata batch.
_BY_NUMBER = {"receive_fetch", "receive_response", "replay", "receive_isr_response"}
_DECISIONS: dict[str, Callable[[Metadata, Any, FactTable], Any]] = {
    "fence": lambda metadata, broker, _: metadata.session_ends(broker),
    "return": lambda metadata, argument, _: metadata.heartbeat(*argument),
    "report": lambda metadata, argument, _: metadata.heartbeat(*argument),
    "shut down": lambda metadata, argument, _: metadata.shut_down(*argument),
    "leave": lambda metadata, argument, _: metadata.shut_down(*argument),
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
    """The heartbeats that a broker may send now, and `fence` for sending none."""
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
    """The requests that an administrator may send about the partition."""
    if partition.leader != partition.replicas[0] in partition.isr:
        yield "elect", METADATA, PREFERRED
    if partition.leader == NO_LEADER:
        yield "elect unclean", METADATA, UNCLEAN
    kept = tuple([broker for broker in partition.replicas if broker not in partition.removing])
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
    moves: list[Move] = [("crash", me, (end, 0))]
    if committed:  # the checkpoint may be new or old
        moves.append(("crash", me, (end, committed)))
    moves += [("lose power", me, (kept, 0)) for kept in range(end)]
    if isr_request:
        moves.append(("alter isr", me, isr_request))
        if bound.losses:
            moves.append(("lose isr response", me, isr_request))
    moves += [(EXPIRE, me, (follower,)) for follower in process.parked]
    if process.truncations:
        moves.append(("truncate", me, ()))
    if process.unreported:
        moves.append(("write", me, ()))
    if partition is not None and partition.online:
        moves.append(("produce", me, ()))
        followers = partition.followers
        if followers is not None and partition.proposed is None:
            moves += [
                ("lag", me, (follower.broker_id,))
                for follower in followers.by_broker.values()
                if follower.broker_id in partition.isr and follower.end != partition.written_end
            ]
    return moves


def _has_news(facts: Sequence[BrokerFacts], expiry: Move) -> bool:
    """Whether the response to an expired fetch would have a new high watermark."""
    _, leader, (follower,) = expiry
    return (
        leader in facts[follower].useful_leaders
        and facts[leader].high_watermark > facts[follower].high_watermark
    )


def _is_refusal(message: Any) -> bool:
    """Whether a response only refuses a fetch."""
    if not isinstance(message, FetchResponseMessage):
        return False
    [data] = message.response.responses[0].partitions
    return data.error_code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)


def _place(message: Any) -> int:
    """The place of a message in a state."""
    kind = REQUEST if isinstance(message, FetchMessage) else RESPONSE
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
    return history.remaining, history.committed, history.unclean, history.broken
