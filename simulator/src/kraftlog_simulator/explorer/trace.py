"""A path through the states as text."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.explorer.bounds import NAMES, NODES
from kraftlog_simulator.explorer.invariants import batches_text
from kraftlog_simulator.explorer.quorum import HISTORY, TARGET

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kraftlog_simulator.explorer.node import Message, Node
    from kraftlog_simulator.explorer.quorum import Move, Quorum, State


def trace_lines(quorum: Quorum, path: Sequence[Move], broken: str) -> Iterator[str]:
    """The moves in order, each with the node that acted and the nodes that it changed."""
    state = quorum.first
    for number, move in enumerate(path, 1):
        line = f"{number:3} {_move_text(quorum, state, move)}"
        try:
            next_state = quorum.after(state, move)
        except Exception as error:
            yield f"{line:58} {type(error).__name__}"
            break
        actor = TARGET.get(move[1], move[1])
        changed = [i for i in range(NODES) if i == actor or next_state[i] != state[i]]
        state = next_state
        yield f"{line:58} {', '.join([_node_text(quorum.nodes[state[i]]) for i in changed])}"
    yield f"    broken: {broken}"


def _move_text(quorum: Quorum, state: State, move: Move) -> str:
    what, where, argument = move
    if where > HISTORY:  # a message on the wire
        message = quorum.messages[state[where]]
        ends = f"{NAMES[message.source]} to {NAMES[message.target]}"
        return f"{what}: {ends}: {_message_text(message)}"
    details = (
        "" if argument is None else f" {NAMES[argument] if isinstance(argument, int) else argument}"
    )
    return f"{NAMES[where]}: {what}{details}"


def _message_text(message: Message) -> str:
    body = message.body
    name = type(body).__name__
    details = [f"epoch {body.epoch}"]
    if getattr(body, "pre_vote", message.is_pre_vote):
        details.append("pre-vote")
    if hasattr(body, "granted"):
        details.append("granted" if body.granted else "refused")
    if getattr(body, "error", 0):
        details.append(f"error {body.error}")
    elif name == "Fetch":
        details.append(f"from {body.offset}@{body.last_epoch}")
    elif name == "FetchResult":
        diverging = body.diverging
        if diverging is not None:
            details.append(f"diverging {diverging.offset}@{diverging.epoch}")
        else:
            details.append(f"{batches_text(body.batches)} committed {body.high_watermark}")
    elif name == "Vote":
        details.append(f"log {body.end_offset}@{body.last_epoch}")
    return f"{name} {', '.join(details)}"


def _node_text(node: Node) -> str:
    core, log = node.core, node.core.log
    return (
        f"{NAMES[node.id]} {core.role.name} {core.election.epoch} {batches_text(node.batches)} "
        f"durable {log.flushed} committed {log.high_watermark}"
    )
