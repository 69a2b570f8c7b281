"""A way through the states as lines for people."""

from __future__ import annotations

from kraftlog.simulator.explorer import moves
from kraftlog.simulator.explorer.bounds import NAMES
from kraftlog.simulator.explorer.invariants import shown
from kraftlog.simulator.explorer.state import first_state
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kraftlog.simulator.explorer.bounds import Bound
    from kraftlog.simulator.explorer.state import Node, State


def scenario(bound: Bound, way: list[moves.Move], broken: str) -> Iterator[str]:
    """The moves one after the other, each with what it made of the nodes that it changed."""
    state = first_state(bound)
    for number, move in enumerate(way, 1):
        line = f"{number:3} {_move(state, move)}"
        try:
            state = moves.after(state, move)
        except Exception as error:
            yield f"{line:58} {type(error).__name__}"
            break
        changed = ", ".join([_node(state.nodes[i]) for i in sorted(state.touched)])
        yield f"{line:58} {changed}"
    yield f"    broken: {broken}"


def _move(state: State, move: moves.Move) -> str:
    what, where = move[0], move[1]
    if isinstance(where, tuple):
        message = state.wire[where]
        text = _body(message)
        ends = f"{NAMES[message.source]} to {NAMES[message.target]}"
        return f"{what}: {ends}: {text}"
    rest = "".join([f" {NAMES[w] if isinstance(w, int) else w}" for w in move[2:]])
    return f"{NAMES[where]}: {what}{rest}"


def _body(message: Any) -> str:
    body = message.body
    name = type(body).__name__
    said = [f"epoch {body.epoch}"]
    if getattr(body, "pre_vote", message.is_pre_vote):
        said.append("before the vote")
    if hasattr(body, "granted"):
        said.append("granted" if body.granted else "refused")
    if getattr(body, "error", 0):
        said.append(f"error {body.error}")
    elif name == "Fetch":
        said.append(f"from {body.offset}@{body.last_epoch}")
    elif name == "FetchAnswer":
        diverging = body.diverging
        parts = f"diverging {diverging.offset}@{diverging.epoch}" if diverging is not None else ""
        said.append(parts or f"{shown(body.batches)} committed {body.high_watermark}")
    elif name == "Vote":
        said.append(f"log {body.end_offset}@{body.last_epoch}")
    return f"{name} {', '.join(said)}"


def _node(node: Node) -> str:
    core, log = node.core, node.core.log
    return (
        f"{NAMES[core.me.id]} {core.role.name} {core.election.epoch} {shown(node.batches)} "
        f"durable {log.flushed} committed {log.high_watermark}"
    )
