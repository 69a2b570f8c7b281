"""What this broker does when the image changes: it opens, leads, leaves and deletes partitions.

A broker that starts replays what it knew long ago: a topic that was deleted since, and another one
under its name, whose log is on this disk. So no log is touched before the broker has read that it
has come back (its registration): all that its earlier lives knew stands in front of that. What else
lies in the directory then is nobody's.
"""

from __future__ import annotations

from kraftlog.effects import DeleteLog, MarkStrays, OpenLog
from kraftlog.errors import ErrorCode, InternalError
from kraftlog.metadata.changes import (
    BrokerChanged,
    ConfigChanged,
    PartitionChanged,
    TopicRemoved,
)
from kraftlog.metadata.image import NO_LEADER, Image, ReplayError
from kraftlog.replication.partition import Partition
from kraftlog.steps import result_of
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from kraftlog.metadata.values import PartitionImage, TopicImage
    from kraftlog.node.node import Node
    from kraftlog.wire.schema import Message

#: What a record, a change of the image, and what follows from it cost, in microseconds.
A_RECORD_COSTS = 2
A_CHANGE_COSTS = 15


def applying_records(node: Node, records: Iterable[Message]) -> Iterator[int]:
    """Replay committed records: the image follows them, and the partitions follow the image.

    Raises ReplayError, with the record, whatever goes wrong: the image is not to be used then.
    """
    record = None
    image = node.image
    try:
        for record in records:
            for change in image.changes_of(record):
                apply(node, change)
                yield A_CHANGE_COSTS
            yield A_RECORD_COSTS
        for change in image.publish():
            apply(node, change)
        yield from node.topic_configs.settling()
    except ReplayError:
        raise
    except Exception as error:
        what = str(InternalError(f"following {record!r:.1000}", error))
        raise ReplayError(what, record) from error


def apply_snapshot(node: Node, records: Iterable[Message]) -> None:
    """Begin with an image of these records, in the place of the one there was."""
    before, node.image = node.image, Image()
    node.encoded_topics.clear()
    node.topic_configs.note_all()
    for record in records:
        node.image.replay(record)
    apply_other(node, before)
    result_of(node.topic_configs.settling())


def apply(node: Node, change: Any) -> None:
    """Become what the image says this node is."""
    node.encoded_topics.note(change)
    if isinstance(change, PartitionChanged):
        _count_unclean(node, change)
        if not node.has_arrived:
            return
        if change.after is None:
            assert change.before is not None, "a change is from something or to something"
            _remove(node, change.before)
        else:
            apply_partition(node, change.after)
    elif isinstance(change, BrokerChanged):
        _arrive(node)
    elif isinstance(change, ConfigChanged):
        node.topic_configs.note(change)
    elif isinstance(change, TopicRemoved):
        _topic_removed(node, change.topic)


def apply_other(node: Node, before: Image) -> None:
    """Become what the node's image says, which has taken the place of another.

    What is gone goes first: its name may be that of another topic by now.
    """
    for topic in before.topics.values():
        if topic.id not in node.image.topics:
            _topic_removed(node, topic)
    for partition in list(node.partitions.values()):
        if (partition.topic_id, partition.index) not in node.image.partitions:
            forget(node, partition)
    if node.has_arrived:
        _apply_all(node)
    else:
        _arrive(node)


def _arrive(node: Node) -> None:
    """Take up all logs once this life of the broker is in the log, and leave the others alone."""
    if node.has_arrived or node.registration is None:
        return
    node.has_arrived = True
    _apply_all(node)
    node.emit(MarkStrays(frozenset(node.by_log), frozenset(node.deleted_meanwhile)))
    node.deleted_meanwhile.clear()


def _apply_all(node: Node) -> None:
    for image in list(node.image.partitions.values()):
        apply_partition(node, image)


def _topic_removed(node: Node, topic: TopicImage) -> None:
    if not node.has_arrived:
        node.deleted_meanwhile.add(topic.id)
    node.counts.forget_topic(topic.name)
    if node.group_coordinators is not None:
        node.group_coordinators.topic_deleted(topic.name, topic.id, node.now)


def _count_unclean(node: Node, change: PartitionChanged) -> None:
    """The active controller's count of leaders that were not in sync."""
    before, after = change.before, change.after
    if (
        before is None
        or after is None
        or node.active_controller is None
        or not node.active_controller.is_active
    ):
        return
    if NO_LEADER != after.leader != before.leader:
        is_clean = after.leader in before.isr or after.leader in before.elr
        node.counts.unclean_elections += not is_clean


def apply_partition(node: Node, image: PartitionImage) -> None:
    me = node.config.node_id
    partition = node.partitions.get(image.key)
    if partition is None:
        if me not in image.replicas:
            return
        topic = node.image.topic(image.topic_id).name
        log = topic, image.index
        partition = Partition(topic, image.topic_id, image.index, log)
        partition.counts = node.counts.of_topic(topic)
        node.partitions[image.key] = node.by_log[log] = partition
        settings = node.topic_configs.of(topic)
        partition.append_config = settings.append_config
        node.emit(OpenLog(log, image.topic_id, settings.config))
    elif me not in image.replicas:
        _remove(node, image)
        return
    node.replicas_changed(partition, len(image.replicas), len(image.isr))
    if image.leader == me:
        partition.lead(image.leader_epoch)
        if partition.online and node.group_coordinators is not None:
            node.group_coordinators.leads(partition, node.now)
    elif partition.leader_epoch != image.leader_epoch:
        if node.group_coordinators is not None:
            node.group_coordinators.leads_no_more(partition, node.now)
        node.drop_waiting(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition.resign(image.leader_epoch)


def _remove(node: Node, image: PartitionImage) -> None:
    """The partition is gone, or not kept here any more."""
    partition = node.partitions.get(image.key)
    if partition is not None:
        forget(node, partition)


def forget(node: Node, partition: Partition) -> None:
    """Have nothing more to do with a partition: its log goes, too."""
    del node.partitions[partition.topic_id, partition.index]
    del node.by_log[partition.log]
    if node.group_coordinators is not None:
        node.group_coordinators.leads_no_more(partition, node.now)
    if partition.pending is not None:
        node.turn.remove(partition.pending)
    partition.resign(partition.leader_epoch)
    node.drop_waiting(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    node.emit(DeleteLog(partition.log, partition.topic_id))
