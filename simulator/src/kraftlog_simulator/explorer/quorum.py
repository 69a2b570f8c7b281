"""All nodes and the messages between them: the states, and their moves.

A state is a tuple of numbers (`tables`): the nodes, the history, and a message or 0 for each place
on the wire. A node's step depends on the node and the event alone (`step`), and the same node
occurs in thousands of states, so each step is computed once. This relies on the keys: a test
applies random walks to real nodes as well, and compares them with the tables.
"""

from __future__ import annotations

from kraftlog.raft import quorum
from kraftlog.raft.messages import BeginEpochResult, Send
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog_simulator.explorer.bounds import NODES
from kraftlog_simulator.explorer.invariants import History, check_state, check_step
from kraftlog_simulator.explorer.keys import history_key, message_key, node_key
from kraftlog_simulator.explorer.node import new_node
from kraftlog_simulator.explorer.step import step
from kraftlog_simulator.explorer.tables import Table

if TYPE_CHECKING:
    from typing import Any

    from kraftlog_simulator.explorer.bounds import Bound
    from kraftlog_simulator.explorer.node import Message, Node

    State = tuple[int, ...]
    #: The kind of the move; its place or node; its argument.
    Move = tuple[str, int, Any]

#: The position of the history in a state, after the nodes.
HISTORY = NODES
#: The messages between two nodes. LATE is a request that a newer one has overtaken.
REQUEST, RESPONSE, LATE = range(3)
_PAIRS = [
    (source, target) for source in range(NODES) for target in range(NODES) if source != target
]
#: By place, a position in a state from HISTORY + 1 on: source, target and kind of the message.
PLACES = {
    HISTORY + 1 + position: (*pair, kind)
    for position, (kind, pair) in enumerate([(kind, pair) for kind in range(3) for pair in _PAIRS])
}
PLACE_OF = {description: place for place, description in PLACES.items()}
TARGET = {place: target for place, (_, target, _) in PLACES.items()}
REQUESTS = [place for place, (_, _, kind) in PLACES.items() if kind != RESPONSE]
#: The length of a state in a bound without late requests.
LENGTH_WITHOUT_LATE = HISTORY + 1 + 2 * len(_PAIRS)

CAMPAIGNING_ROLES = {
    quorum.UNATTACHED,
    quorum.VOTED,
    quorum.FOLLOWER,
    quorum.CANDIDATE,
    quorum.RESIGNED,
    quorum.LEADER,
}


class NodeFacts(Value):
    """What the search needs to know about a node."""

    #: The node's own moves, assuming that there is a record to propose.
    moves: tuple[Move, ...]
    #: Its current epoch, and the one on its disk.
    epoch: int
    durable_epoch: int
    #: The nodes to whose requests it has not responded yet.
    unanswered: tuple[int, ...]
    #: The nodes from which it waits for a response, and those to which its request is still held.
    waits_for: tuple[int, ...]
    held_requests: tuple[int, ...]


class MessageFacts(Value):
    """What the search needs to know about a message."""

    is_awaited: bool
    epoch: int
    #: The number of the same message when it is no longer awaited.
    abandoned: int
    #: Whether its only effect is that the leader stops sending BeginQuorumEpoch.
    ends_announcements: bool


class Step(Value):
    """A step's result as numbers; `sent` has pairs of place and message, `given_up` has peers."""

    node: int
    sent: tuple[tuple[int, int], ...]
    given_up: tuple[int, ...]


class Quorum:
    """The states and moves within a bound."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.nodes = Table(node_key)
        self.messages = Table(message_key)
        self.histories = Table(history_key)
        self.node_facts: list[Any] = [None]
        self.message_facts: list[Any] = [None]
        self._steps: dict[tuple[int, str, Any], Step] = {}
        #: By history and node: the history with what the node adds.
        self._extended: dict[tuple[int, int], int] = {}
        self._checked: set[State] = set()
        places = LENGTH_WITHOUT_LATE if not bound.duplicates else LENGTH_WITHOUT_LATE + len(_PAIRS)
        nodes = [self._node_number(new_node(i, bound.crashes[i])) for i in range(NODES)]
        history = self.histories.number(History(bound.records))
        self.first: State = (*nodes, history, *[0] * (places - HISTORY - 1))
        self._wire = range(HISTORY + 1, places)
        self._requests = [place for place in REQUESTS if place < places]
        self._responses = sorted(_RESPONSES)
        self._moves_at = {place: _moves_of_message(place, bound) for place in self._wire}

    # Moves ---------------------------------------------------------------------------------------

    def moves(self, state: State) -> list[Move]:
        """The moves to try: only those of one message if they are independent of all others."""
        facts = self.message_facts
        for place in self._responses:
            message = state[place]
            if message and facts[message].ends_announcements:
                return [("deliver", place, None), ("lose", place, None)]
        return self.all_moves(state)

    def all_moves(self, state: State) -> list[Move]:
        moves: list[Move] = []
        for place in self._wire:
            if state[place]:
                moves += self._moves_at[place]
        node_facts = self.node_facts
        for node_id in range(NODES):
            moves += node_facts[state[node_id]].moves
        if not self.histories[state[HISTORY]].records:
            return [move for move in moves if move[0] != "propose"]
        return moves

    def after(self, state: State, move: Move) -> State:
        """The state after a move; raises Broken or AssertionError if a core breaks a rule."""
        what, where, argument = move
        next_state = list(state)
        if where >= HISTORY:
            message, source = state[where], PLACES[where][0]
            if what != "deliver, and again later":
                next_state[where] = 0
            if what == "lose":
                self._apply(next_state, TARGET[where], "no response", source)
            else:
                self._apply(next_state, TARGET[where], "receive", message)
        else:
            if what == "propose":
                history = self.histories[state[HISTORY]]
                after = history.replace(records=history.records - 1)
                next_state[HISTORY] = self.histories.number(after)
            self._apply(next_state, where, what, argument)
            if what == "crash":
                self._notify_unanswered(next_state, where)
        self._drop_fenced(next_state)
        return tuple(next_state)

    def check(self, state: State) -> None:
        """Raise Broken if the nodes of this state break an invariant."""
        seen = state[: HISTORY + 1]
        if seen not in self._checked:
            self._checked.add(seen)
            nodes = [self.nodes[number] for number in state[:NODES]]
            check_state(nodes, self.histories[state[HISTORY]])

    def is_within(self, state: State) -> bool:
        epochs = self.bound.epochs
        return all(self.node_facts[number].epoch <= epochs for number in state[:NODES])

    # One step ------------------------------------------------------------------------------------

    def _apply(self, state: list[int], node_id: int, event: str, argument: Any) -> None:
        step_key = (state[node_id], event, argument)
        result = self._steps.get(step_key)
        if result is None:
            result = self._steps[step_key] = self._compute_step(*step_key)
        state[node_id] = node = result.node
        for peer in result.given_up:
            self._give_up(state, node_id, peer)
        for place, message in result.sent:
            if self.bound.duplicates and place in _LATE and state[place]:
                state[_LATE[place]] = state[place]
            state[place] = message
        pair = (state[HISTORY], node)
        history = self._extended.get(pair)
        if history is None:
            after = self.histories[state[HISTORY]].with_node(self.nodes[node])
            history = self._extended[pair] = self.histories.number(after)
        state[HISTORY] = history

    def _compute_step(self, number: int, event: str, argument: Any) -> Step:
        node = self.nodes[number]
        result = step(node, event, self.messages[argument] if event == "receive" else argument)
        check_step(node, result.node)
        sent = [(_place(message), self._message_number(message)) for message in result.sent]
        return Step(self._node_number(result.node), tuple(sent), result.given_up)

    def _give_up(self, state: list[int], requester: int, peer: int) -> None:
        """`requester` no longer waits for the response to its request to `peer`."""
        request = PLACE_OF[requester, peer, REQUEST]
        if state[request]:
            state[request] = self.message_facts[state[request]].abandoned
        state[PLACE_OF[peer, requester, RESPONSE]] = 0
        if requester in self.node_facts[state[peer]].unanswered:
            step_key = (state[peer], "forget", requester)
            if step_key not in self._steps:
                self._steps[step_key] = self._compute_step(*step_key)
            state[peer] = self._steps[step_key].node

    def _notify_unanswered(self, state: list[int], crashed: int) -> None:
        """Notify nodes that wait for a response of `crashed` if it has lost their requests."""
        for requester in range(NODES):
            facts = self.node_facts[state[requester]]
            if (
                requester == crashed
                or crashed not in facts.waits_for
                or crashed in facts.held_requests
            ):
                continue
            request = state[PLACE_OF[requester, crashed, REQUEST]]
            is_in_flight = request and self.message_facts[request].is_awaited
            if not is_in_flight and not state[PLACE_OF[crashed, requester, RESPONSE]]:
                self._apply(state, requester, "no response", crashed)

    def _drop_fenced(self, state: list[int]) -> None:
        """Drop abandoned requests of an epoch that their receiver has left."""
        for place in self._requests:
            message = state[place]
            if message:
                facts = self.message_facts[message]
                if not facts.is_awaited:
                    receiver = self.node_facts[state[TARGET[place]]]
                    if facts.epoch < receiver.durable_epoch:
                        state[place] = 0

    # Numbers -------------------------------------------------------------------------------------

    def _node_number(self, node: Node) -> int:
        number = self.nodes.number(node, node.id)
        if number == len(self.node_facts):
            self.node_facts.append(self._facts(node))
        return number

    def _facts(self, node: Node) -> NodeFacts:
        waits_for = node.waits_for()
        held = {
            effect.peer
            for effect in node.held
            if isinstance(effect, Send) and _is_awaited(node, effect)
        }
        unanswered = {effect.pending.id for effect in node.held if not isinstance(effect, Send)}
        unanswered |= {parked.request.pending.id for parked in node.parked}
        return NodeFacts(
            moves=tuple(_moves_of_node(node, self.bound)),
            epoch=node.core.election.epoch,
            durable_epoch=node.election.epoch,
            unanswered=tuple(sorted(unanswered)),
            waits_for=waits_for,
            held_requests=tuple(sorted(held)),
        )

    def _message_number(self, message: Message) -> int:
        number = self.messages.number(message)
        if number == len(self.message_facts):
            body = message.body
            ends_announcements = isinstance(body, BeginEpochResult) and not body.error
            facts = MessageFacts(message.is_awaited, body.epoch, number, ends_announcements)
            self.message_facts.append(facts)
            if message.is_awaited:
                facts.abandoned = self._message_number(message.replace(is_awaited=False))
        return number


_RESPONSES = {place for place, (_, _, kind) in PLACES.items() if kind == RESPONSE}
_LATE = {PLACE_OF[(*pair, REQUEST)]: PLACE_OF[(*pair, LATE)] for pair in _PAIRS}


def _place(message: Message) -> int:
    kind = RESPONSE if message.is_response else REQUEST
    return PLACE_OF[message.source, message.target, kind]


def _is_awaited(node: Node, send: Send) -> bool:
    return node.in_flight(send.peer) == send.number


def _moves_of_message(place: int, bound: Bound) -> list[Move]:
    """What can happen to the message at a place."""
    if place in _RESPONSES:
        return [("deliver", place, None), ("lose", place, None)]
    if bound.duplicates:
        return [("deliver", place, None), ("deliver, and again later", place, None)]
    return [("deliver", place, None)]


def _moves_of_node(node: Node, bound: Bound) -> list[Move]:
    """What a node can do by itself."""
    core, me = node.core, node.id
    role = core.role.name
    moves: list[Move] = []
    if node.pending:
        moves.append(("persist", me, None))
    if core.log.flushed < core.log.end:
        moves.append(("flush", me, None))
    if node.crashes:
        moves.append(("crash", me, None))
    if role == quorum.LEADER and bound.records:
        moves.append(("propose", me, None))
    if bound.has_pre_vote:
        if role == quorum.LEADER:
            moves.append(("resign", me, None))
        timers = ("election", "fetch timeout")
        moves += [("timeout", me, name) for name in timers if name in core.timers]
    elif role in CAMPAIGNING_ROLES and core.election.epoch < bound.epochs:
        moves.append(("campaign", me, None))
    if bound.finds_leader and role in {quorum.UNATTACHED, quorum.VOTED} and not node.waits_for():
        moves += [("discover", me, peer) for peer in core.others]
    return moves
