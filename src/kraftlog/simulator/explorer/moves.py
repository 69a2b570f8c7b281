"""What may happen next in a state, and how it is told to people."""

from __future__ import annotations

from kraftlog.raft import fetching, quorum
from kraftlog.raft.messages import Answered, Asked, BeginAnswer, Flushed, Unanswered
from kraftlog.simulator.explorer.carry import persist, settle, tell_unanswered
from kraftlog.simulator.explorer.state import MUCH_LATER, NOW, Node, make_core
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kraftlog.raft.core import RaftCore
    from kraftlog.simulator.explorer.bounds import Bound
    from kraftlog.simulator.explorer.state import State

    #: What happens, and to whom.
    Move = tuple[Any, ...]

STANDS = {
    quorum.UNATTACHED,
    quorum.VOTED,
    quorum.FOLLOWER,
    quorum.CANDIDATE,
    quorum.RESIGNED,
    quorum.LEADER,
}


def moves(state: State, bound: Bound) -> Iterator[Move]:
    for place, message in state.wire.items():
        if isinstance(message.body, BeginAnswer) and not message.body.error:
            # All it does is to end the telling: when it comes makes no difference.
            yield "deliver", place
            yield "lose", place
            return
    for place, message in state.wire.items():
        yield "deliver", place
        if message.is_answer:
            yield "lose", place
        elif bound.repeats:
            yield "deliver, to come again", place
    for node_id, node in enumerate(state.nodes):
        yield from _moves_of(state, bound, node_id, node)


def _moves_of(state: State, bound: Bound, node_id: int, node: Node) -> Iterator[Move]:
    core = node.core
    role = core.role.name
    if node.pending:
        yield "persist", node_id
    if core.log.flushed < core.log.end:
        yield "flush", node_id
    if node.crashes:
        yield "crash", node_id
    if role == quorum.LEADER and state.records:
        yield "propose", node_id
    if bound.asks_first:
        if role == quorum.LEADER:
            yield "resign", node_id
        for name in ("election", "fetch timeout"):
            if name in core.timers:
                yield "time is up", node_id, name
    elif role in STANDS and core.election.epoch < bound.epochs:
        yield "stand", node_id
    if bound.discovers and role in {quorum.UNATTACHED, quorum.VOTED}:
        for peer in core.others:
            if all(known.in_flight < 0 for known in core.peers.values()):
                yield "discover", node_id, peer


def after(state: State, move: Move) -> State:
    """The state after a move; Broken or AssertionError if the cores do what they never may."""
    following = state.copy()
    _MAKE[move[0]](following, *move[1:])
    return following


def _deliver(state: State, place: tuple[int, int, int]) -> None:
    _take(state, state.wire.pop(place))


def _deliver_twice(state: State, place: tuple[int, int, int]) -> None:
    """The message arrives, and may do so once more."""
    _take(state, state.wire[place])


def _take(state: State, message: Any) -> None:
    core = state.change(message.target).core
    if message.is_answer:
        core.handle(Answered(message.source, message.number, message.body), NOW)
    else:
        is_pre_vote = getattr(message.body, "pre_vote", False)
        slot = message.source, message.life, message.number, is_pre_vote
        core.handle(Asked(slot, message.body, message.source, message.number), NOW)
    settle(state, message.target)


def _lose(state: State, place: tuple[int, int, int]) -> None:
    message = state.wire.pop(place)
    node = state.change(message.target)
    node.core.handle(Unanswered(message.source, message.number), NOW)
    settle(state, message.target)


def _stand(state: State, node_id: int) -> None:
    core = state.change(node_id).core
    if core.role.name == quorum.LEADER:
        _lose_nerve(core)
    if core.role.name in {quorum.CANDIDATE, quorum.RESIGNED}:
        core.fire("election")
    core.role.on_succession(core, 0)
    settle(state, node_id)


def _time_is_up(state: State, node_id: int, name: str) -> None:
    state.change(node_id).core.fire(name)
    settle(state, node_id)


def _resign(state: State, node_id: int) -> None:
    _lose_nerve(state.change(node_id).core)
    settle(state, node_id)


def _lose_nerve(core: RaftCore) -> None:
    """A leader finds that nobody has been heard of for long."""
    core.now = MUCH_LATER
    core.fire("majority")
    core.now = NOW


def _persist(state: State, node_id: int) -> None:
    persist(state.change(node_id))
    settle(state, node_id)


def _flush(state: State, node_id: int) -> None:
    core = state.change(node_id).core
    core.handle(Flushed(core.log.end), NOW)
    settle(state, node_id)


def _crash(state: State, node_id: int) -> None:
    """What is not durable is lost, and the replica starts anew."""
    old = state.change(node_id)
    durable = old.durable
    node = Node(make_core(node_id, durable, old.election), old.crashes - 1)
    node.batches, node.promised = durable, old.promised
    node.election = old.election
    state.nodes[node_id] = node
    settle(state, node_id)
    tell_unanswered(state, node_id)


def _propose(state: State, node_id: int) -> None:
    state.records -= 1
    state.change(node_id).core.propose("proposal", 1, 1, "record", NOW)
    settle(state, node_id)


def _discover(state: State, node_id: int, peer: int) -> None:
    fetching.fetch_from(state.change(node_id).core, peer)
    settle(state, node_id)


_MAKE: dict[str, Any] = {
    "deliver": _deliver,
    "deliver, to come again": _deliver_twice,
    "lose": _lose,
    "stand": _stand,
    "time is up": _time_is_up,
    "resign": _resign,
    "persist": _persist,
    "flush": _flush,
    "crash": _crash,
    "propose": _propose,
    "discover": _discover,
}
