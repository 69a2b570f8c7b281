"""What an exception of ours costs in serving a request: its client, and no other (decision 0013).

Wherever a handler stops, what it has half done is taken back, a part of the node at a time: a
partition goes back to what is written, the groups of a partition are loaded from their log once
more, what waits for the client's sake is cancelled. Only an exception within a step of the quorum
ends the node, as a vote or an acknowledgement might rest on half of it: `is_whole` says so.
"""

from __future__ import annotations

from kraftlog.errors import MistakeError
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.node.slots import Slot
    from kraftlog.replication.partition import Partition


def contain(node: Node, slot: Slot, error: Exception, request: Any = None) -> MistakeError:
    """Take back what a request has half done. Raises `error` again where that is not possible."""
    _check_whole(node, error)
    slot.abandon()
    assert slot.api is not None, "it is known what is served"
    if slot.api.key == ApiKey.PRODUCE and request is not None:
        _take_back(node, _partitions_of(node, request))
    elif slot.api.key == ApiKey.FETCH and request is not None:
        node.fetch_sessions.drop(request.session_id)
    if node.coordinating is not None:
        node.coordinating.load_again_what_was_asked(node.now)
    return MistakeError(f"serving {slot.api.name} version {slot.version}", error)


def contain_repeated(node: Node, partition: Partition, error: Exception) -> MistakeError:
    """The same for a request that was served by a template, about one partition."""
    _check_whole(node, error)
    _take_back(node, (partition,))
    return MistakeError("serving a request that repeats", error)


def _check_whole(node: Node, error: Exception) -> None:
    if not node.quorum.is_whole or (node.governing is not None and not node.governing.is_whole):
        raise error


def _partitions_of(node: Node, request: Any) -> list[Partition]:
    """The partitions here that a Produce request names."""
    found = []
    for topic in request.topic_data:
        topic_id = node.image.topic_ids.get(topic.name, topic.topic_id)
        for part in topic.partition_data:
            partition = node.partitions.get((topic_id, part.index))
            if partition is not None:
                found.append(partition)
    return found


def _take_back(node: Node, partitions: Iterable[Partition]) -> None:
    """Have them end where they are written: what else this turn has sent to them is refused."""
    for partition in partitions:
        pending = partition.pending
        if pending is not None:
            # Were there others that wait to be durable, their offsets would be given once more.
            is_alone = partition.unwritten[0] is pending
            node.write_failed(partition, stays_online=is_alone)
