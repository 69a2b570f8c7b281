"""An image is written as records in Kafka's order, even while it changes, and restored."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from kraftlog.metadata.image import Image
from kraftlog.metadata.versions import record_version
from kraftlog.wire.messages import metadata_records as records
from kraftlog.wire.record_frames import (
    METADATA_TYPES,
    decode_metadata,
    encode_metadata,
    metadata_class,
)
from kraftlog.wire.schema import Message
from tests.metadata import samples
from tests.metadata.samples import SNAPSHOT, uuid
from tests.wire.samples import Sampler


def image_of(log: list[Message] | tuple[Message, ...]) -> Image:
    image = Image()
    for record in log:
        image.replay(record)
    return image


def test_a_snapshot_restores_the_image() -> None:
    assert list(image_of(SNAPSHOT).records()) == list(SNAPSHOT)


def test_the_samples_are_of_every_kind_of_state() -> None:
    """A map that no sample fills could be missing from snapshots."""
    maps = image_of(SNAPSHOT).maps()
    not_sampled = {name for name, mapping in maps.items() if not mapping}
    assert not_sampled == {"removed", "transaction", "held_back"}


def test_a_snapshot_survives_encoding() -> None:
    written = [encode_metadata(each, record_version(each)) for each in SNAPSHOT]
    assert [decode_metadata(each)[0] for each in written] == list(SNAPSHOT)


def test_metadata_version_is_first_in_a_snapshot() -> None:
    image = image_of([samples.feature("a", 1), samples.feature("metadata.version", 30)])
    first = next(image.records())
    assert first == samples.feature("metadata.version", 30)


def test_v11_a_snapshot_keeps_removed_partitions() -> None:
    removal = records.PartitionChangeRecord(partition_id=1, topic_id=uuid(1), removed=True)
    image = image_of([samples.topic(1, "a"), *(samples.partition(1, n) for n in range(2)), removal])
    restored = image_of(list(image.records()))
    assert restored == image
    assert restored.topics[uuid(1)].partition_count == 1


def test_v11_a_snapshot_keeps_the_first_epoch_of_a_partition() -> None:
    """Also after other changes of the partition."""
    added_again = samples.partition(1, 0).replace(leader_epoch=5, first_leader_epoch=5)
    change = records.PartitionChangeRecord(partition_id=0, topic_id=uuid(1), leader=1)
    image = image_of([samples.topic(1, "a"), added_again, change])
    partition = image.partitions[uuid(1), 0]
    assert (partition.leader_epoch, partition.first_leader_epoch) == (6, 5)
    assert image_of(list(image.records())) == image


def test_a_snapshot_has_the_image_as_of_its_start() -> None:
    image = image_of(SNAPSHOT)
    remaining = image.records()
    first_records = list(islice(remaining, 3))
    image.replay(records.RemoveTopicRecord(topic_id=uuid(1)))
    image.replay(samples.topic(3, "c"))
    assert [*first_records, *remaining] == list(SNAPSHOT)


def test_all_records_but_registration_changes_have_the_newest_version() -> None:
    """A type that is missing in `metadata/versions.py` gets version 0, which may lack fields."""
    newest = {
        metadata_class(number): metadata_class(number)._versions[1] for number in METADATA_TYPES
    }
    del newest[records.BrokerRegistrationChangeRecord]
    sampler = Sampler(Random(1))
    written = {cls: record_version(sampler.message(cls, last)) for cls, last in newest.items()}
    assert written == newest


def test_a_snapshot_keeps_the_directories_that_cannot_be_written() -> None:
    image = image_of([samples.register_broker(1, epoch=10)])
    image.replay(
        records.BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=10, unwritable_log_dirs=(uuid(9),)
        )
    )
    assert image_of(list(image.records())).brokers[1].unwritable == (uuid(9),)


@pytest.mark.parametrize(
    ("changes", "version"),
    [
        ({"fenced": 1}, 0),
        ({"in_controlled_shutdown": 1}, 1),
        ({"log_dirs": (uuid(1),)}, 2),
        ({"cordoned_log_dirs": ()}, 3),
        ({"unwritable_log_dirs": ()}, 0),
    ],
)
def test_registration_changes_use_the_lowest_version(
    changes: dict[str, object], version: int
) -> None:
    record = records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1)
    assert record_version(record.replace(**changes)) == version
