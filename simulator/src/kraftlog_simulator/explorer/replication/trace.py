"""A path through the states as text."""

from __future__ import annotations

from kraftlog.metadata.values import NO_LEADER
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.explorer.bounds import NAMES, NODES
from kraftlog_simulator.explorer.replication.cluster import EXPIRE, HISTORY, METADATA, PLACES
from kraftlog_simulator.explorer.replication.log import epochs_text, split
from kraftlog_simulator.explorer.replication.process import FetchMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from kraftlog_simulator.explorer.replication.broker import Broker
    from kraftlog_simulator.explorer.replication.cluster import Cluster, Move, State
    from kraftlog_simulator.explorer.replication.metadata import Metadata


def trace_lines(cluster: Cluster, path: Sequence[Move], broken: str) -> Iterator[str]:
    """The moves in order, each with what it changed."""
    state = cluster.first
    for number, move in enumerate(path, 1):
        line = f"{number:3} {_move_text(cluster, state, move)}"
        try:
            next_state = cluster.after(state, move)
        except Exception as error:
            yield f"{line:58} {type(error).__name__}"
            break
        changed = [
            _broker_text(cluster.brokers[next_state[broker_id]])
            for broker_id in range(NODES)
            if _broker_text(cluster.brokers[next_state[broker_id]])
            != _broker_text(cluster.brokers[state[broker_id]])
        ]
        before, after = [
            _metadata_text(cluster.metadata[which[METADATA]]) for which in (state, next_state)
        ]
        if after != before:
            changed.append(after)
        state = next_state
        yield f"{line:58} {', '.join(changed)}".rstrip()
    yield f"    broken: {broken}"


def _move_text(cluster: Cluster, state: State, move: Move) -> str:
    what, where, argument = move
    if where > HISTORY:  # a message on the wire
        follower, leader, _ = PLACES[where]
        message = cluster.messages[state[where]]
        is_request = isinstance(message, FetchMessage)
        ends = (follower, leader) if is_request else (leader, follower)
        if is_request and not message.is_awaited:
            what += " late"
        return f"{what}: {NAMES[ends[0]]} to {NAMES[ends[1]]}: {_message_text(message)}"
    if where == METADATA:
        return f"controller: {what}{_argument_text(what, argument)}"
    details = f" {NAMES[argument[0]]}" if what == "lag" else ""
    if what == EXPIRE:
        details = f" of {NAMES[argument[0]]}"
    if what == "lose power":
        details = f", {argument[0]} records are left"
    return f"{NAMES[where]}: {what}{details}"


def _argument_text(what: str, argument: Any) -> str:
    """What a decision of the controller is about."""
    if what == "reassign":
        return f" to {_names(argument)}"
    return "" if argument is None or what.startswith("elect") else f" {NAMES[argument]}"


def _names(brokers: Sequence[int]) -> str:
    return "".join([NAMES[broker] for broker in brokers])


def _message_text(message: Any) -> str:
    if isinstance(message, FetchMessage):
        partition = message.request.topics[0].partitions[0]
        position = f"{partition.fetch_offset}@{partition.last_fetched_epoch}"
        return f"Fetch epoch {partition.current_leader_epoch}, from {position}"
    data = message.response.responses[0].partitions[0]
    if data.error_code:
        return f"error {data.error_code}"
    diverging = data.diverging_epoch
    if diverging.end_offset >= 0:
        return f"diverging {diverging.end_offset}@{diverging.epoch}"
    return f"{epochs_text(split(bytes(data.records)))} committed {data.high_watermark}"


def _broker_text(broker: Broker) -> str:
    partition = broker.partition
    name, log = NAMES[broker.id], epochs_text(broker.log.batches)
    if broker.process is None:
        return f"{name} down {log}"
    if partition is None:
        return f"{name} has no replica {log}"
    role = "leads" if partition.leads else "follows"
    return f"{name} {role} {partition.leader_epoch} {log} committed {partition.high_watermark}"


def _metadata_text(metadata: Metadata) -> str:
    partition = metadata.partition
    if partition is None:
        return "no topic"
    leader = "no leader" if partition.leader == NO_LEADER else NAMES[partition.leader]
    text = f"{leader} elected in {partition.leader_epoch}, ISR {_names(partition.isr)}"
    if partition.reassigning:
        adding, removing = _names(partition.adding), _names(partition.removing)
        text += f", adding {adding or 'none'}, removing {removing or 'none'}"
    return text
