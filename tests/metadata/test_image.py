"""The image that results from replayed records."""

from __future__ import annotations

import pytest

from kraftlog.metadata.changes import PartitionChanged
from kraftlog.metadata.image import Image, UnreplayableRecordError
from kraftlog.wire.messages.control_records import SnapshotFooterRecord
from kraftlog.wire.messages.metadata_records import PartitionRecord
from tests.metadata.cluster_records import cluster_records


def image_of(**topics: int) -> tuple[Image, list[PartitionRecord]]:
    image, partitions = Image(), []
    for record in cluster_records(cluster_id="c", node_id=1, host="h", port=9092, topics=topics):
        image.replay(record)
        if isinstance(record, PartitionRecord):
            partitions.append(record)
    return image, partitions


def test_topics_are_found_by_name_with_their_partitions() -> None:
    image, _ = image_of(a=2, b=1)
    topic = image.topic_named("a")
    assert topic is not None
    assert [p.index for p in image.partitions_of(topic)] == [0, 1]
    assert image.topic_named("c") is None


def test_a_repeated_partition_record_replaces_the_first() -> None:
    image, [first, _] = image_of(a=2)
    image.replay(first.replace(leader_epoch=7))
    topic = image.topic_named("a")
    assert topic is not None
    assert [p.leader_epoch for p in image.partitions_of(topic)] == [7, 0]


def test_values_of_an_image_are_immutable() -> None:
    image, [record] = image_of(a=1)
    key = record.topic_id, 0
    before = image.partitions[key]
    (change,) = image.replay(record.replace(leader_epoch=7))
    assert change == PartitionChanged(before, image.partitions[key])
    assert (before.leader_epoch, image.partitions[key].leader_epoch) == (0, 7)


def test_an_unknown_record_is_an_error() -> None:
    with pytest.raises(UnreplayableRecordError, match="SnapshotFooterRecord"):
        Image().replay(SnapshotFooterRecord(version=0))
