"""Each record type: its effect on the image, and the changes that replay returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.metadata.changes import (
    BrokerChanged,
    ConfigChanged,
    FeatureChanged,
    PartitionChanged,
    TopicCreated,
    TopicRemoved,
)
from kraftlog.metadata.image import Image, ReplayError
from kraftlog.metadata.replay import REPLAY
from kraftlog.metadata.values import DirectoryId
from kraftlog.wire.messages import metadata_records as records
from kraftlog.wire.record_frames import METADATA_TYPES
from kraftlog.wire.schema import Message
from tests.metadata import samples
from tests.metadata.samples import uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.metadata.changes import Change


class WatchedImage(Image):
    """Fails if a record changes a map other than by `put` or `drop`, which can be undone."""

    def __init__(self) -> None:
        super().__init__()
        #: The same changes, as far as they go through `put` and `drop`.
        self.mirror = Image()

    def put(self, mapping: dict[Any, Any], key: Any, value: Any) -> None:
        self._mirrored(mapping)[key] = value
        super().put(mapping, key, value)

    def drop(self, mapping: dict[Any, Any], key: Any) -> None:
        self._mirrored(mapping).pop(key, None)
        super().drop(mapping, key)

    def _mirrored(self, mapping: dict[Any, Any]) -> dict[Any, Any]:
        (name,) = [name for name, candidate in self.maps().items() if candidate is mapping]
        return self.mirror.maps()[name]

    def replay(self, record: Message) -> Sequence[Change]:
        changes = super().replay(record)
        assert self.mirror == self, f"{record!r} changes a map without put or drop"
        return changes


def image_of(*log: Message) -> Image:
    image = WatchedImage()
    for record in log:
        image.replay(record)
    return image


def change(partition: int = 0, **changes: Any) -> records.PartitionChangeRecord:
    return records.PartitionChangeRecord(partition_id=partition, topic_id=uuid(1), **changes)


TOPIC = samples.topic(1, "a")


def test_every_record_type_is_replayed() -> None:
    transactions = {
        "BeginTransactionRecord",
        "EndTransactionRecord",
        "AbortTransactionRecord",
    }
    replayed = {cls.__name__ for cls in REPLAY}
    assert replayed | transactions == set(METADATA_TYPES.values())


def test_records_change_an_image_with_put_and_drop_alone() -> None:
    assert image_of(*samples.SNAPSHOT) != Image()


# Partitions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_partition_count_does_not_depend_on_record_order(order: tuple[int, ...]) -> None:
    image = image_of(TOPIC, *(samples.partition(1, index) for index in order))
    topic = image.topics[uuid(1)]
    assert topic.partition_count == 3
    assert [p.index for p in image.partitions_of(topic)] == [0, 1, 2]
    image.replay(samples.partition(1, 1))
    assert image.topics[uuid(1)].partition_count == 3


def test_partitions_with_gaps_can_be_iterated() -> None:
    image = image_of(TOPIC, samples.partition(1, 2))
    assert [p.index for p in image.partitions_of(image.topics[uuid(1)])] == [2]


def test_a_partition_change_keeps_other_fields() -> None:
    """C204."""
    image = image_of(TOPIC, samples.partition(1, 0))
    before = image.partitions[uuid(1), 0]
    (changed,) = image.replay(change(isr=(1, 2)))
    after = image.partitions[uuid(1), 0]
    assert changed == PartitionChanged(before, after)
    assert after == before.replace(isr=(1, 2), partition_epoch=5)


def test_images_that_replay_the_same_records_share_their_partitions() -> None:
    records = (TOPIC, samples.partition(1, 0), change(isr=(2,)), change(leader=2))
    first, second = image_of(*records), image_of(*records)
    assert first.partitions[uuid(1), 0] is second.partitions[uuid(1), 0]


def test_a_changed_partition_keeps_the_key_that_maps_have() -> None:
    """Otherwise each of a hundred thousand partitions would keep a second tuple in memory."""
    image = image_of(TOPIC, samples.partition(1, 0))
    before = image.partitions[uuid(1), 0]
    image.replay(change(leader=-1))
    after = image.partitions[uuid(1), 0]
    assert after.key == (uuid(1), 0)
    assert after.key is before.key is next(iter(image.partitions))


def test_a_cached_change_is_used_only_for_the_same_former_state() -> None:
    leads_again = change(leader=1)
    first = image_of(TOPIC, samples.partition(1, 0), leads_again)
    second = image_of(TOPIC, samples.partition(1, 0), change(isr=(2,)), leads_again)
    assert first.partitions[uuid(1), 0].isr == (1,)
    assert second.partitions[uuid(1), 0].isr == (2,)


def test_a_change_with_the_same_leader_bumps_the_epoch() -> None:
    """C204."""
    image = image_of(TOPIC, samples.partition(1, 0))
    image.replay(change(leader=1))
    assert image.partitions[uuid(1), 0].leader_epoch == 4
    image.replay(change(leader=-1))
    after = image.partitions[uuid(1), 0]
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (-1, 5, 6)


def test_a_partition_change_sets_each_field_that_it_has() -> None:
    image = image_of(TOPIC, samples.partition(1, 0))
    image.replay(
        change(
            replicas=(3,),
            removing_replicas=(1,),
            adding_replicas=(),
            leader_recovery_state=0,
            directories=(uuid(103),),
            eligible_leader_replicas=(),
            last_known_elr=(3,),
        )
    )
    after = image.partitions[uuid(1), 0]
    assert (after.replicas, after.removing, after.adding) == ((3,), (1,), ())
    assert (after.recovery, after.directories) == (0, (uuid(103),))
    assert (after.elr, after.last_known_elr) == ((), (3,))


def test_replicas_without_directories_have_the_legacy_id() -> None:
    image = image_of(TOPIC, samples.partition(1, 0, directories=()))
    assert image.partitions[uuid(1), 0].directories == (DirectoryId.MIGRATING,) * 2


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_v11_partitions_may_be_removed_in_any_order(order: tuple[int, int]) -> None:
    image = image_of(TOPIC, *(samples.partition(1, index) for index in range(3)))
    for index in order:
        (changed,) = image.replay(change(index, removed=True))
        assert changed == PartitionChanged(image.removed[uuid(1), index].replace(leader=1), None)
    assert image.topics[uuid(1)].partition_count == 1
    assert list(image.partitions) == [(uuid(1), 0)]


def test_a_removed_topic_removes_its_partitions_and_configs() -> None:
    image = image_of(
        TOPIC,
        samples.partition(1, 0),
        samples.partition(1, 1),
        samples.config("a", "retention.ms", "1"),
        change(1, removed=True),
    )
    topic, partition = image.topics[uuid(1)], image.partitions[uuid(1), 0]
    changes = image.replay(records.RemoveTopicRecord(topic_id=uuid(1)))
    assert list(changes) == [PartitionChanged(partition, None), TopicRemoved(topic)]
    assert image == Image()


def test_the_elr_is_cleared() -> None:
    image = image_of(TOPIC, samples.partition(1, 0), samples.topic(2, "b"), samples.partition(2, 0))
    assert len(image.replay(records.ClearElrRecord(topic_name="a"))) == 1
    cleared = image.partitions[uuid(1), 0]
    assert (cleared.elr, cleared.last_known_elr, cleared.partition_epoch) == ((), (), 5)
    assert len(image.replay(records.ClearElrRecord(topic_name=""))) == 1
    assert image.partitions[uuid(2), 0].elr == ()


# Brokers -----------------------------------------------------------------------------------------


def test_a_broker_is_fenced_by_old_and_new_records() -> None:
    image = image_of(samples.register_broker(1, epoch=10))
    before = image.brokers[1]
    assert before.fenced
    (changed,) = image.replay(records.UnfenceBrokerRecord(id=1, epoch=10))
    assert changed == BrokerChanged(before, before.replace(fenced=False))
    image.replay(records.FenceBrokerRecord(id=1, epoch=10))
    assert image.brokers[1].fenced
    for fenced in (-1, 1):
        image.replay(
            records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=fenced)
        )
        assert image.brokers[1].fenced == (fenced == 1)


def test_a_registration_change_sets_its_fields_and_keeps_the_others() -> None:
    image = image_of(samples.register_broker(1, epoch=10))
    image.replay(
        records.BrokerRegistrationChangeRecord(
            broker_id=1,
            broker_epoch=10,
            in_controlled_shutdown=1,
            log_dirs=(uuid(5),),
            cordoned_log_dirs=(uuid(5),),
            unwritable_log_dirs=(uuid(5),),
        )
    )
    broker = image.brokers[1]
    assert broker.unwritable == (uuid(5),)
    assert (broker.in_controlled_shutdown, broker.fenced) == (True, True)
    assert (broker.directories, broker.cordoned) == ((uuid(5),), (uuid(5),))
    assert broker.rack == "r"
    endpoint = broker.endpoint("PLAINTEXT")
    assert endpoint is not None
    assert (endpoint.host, endpoint.port) == ("h", 9092)
    assert broker.endpoint("OTHER") is None


def test_unassigned_directories_are_assumed_online() -> None:
    broker = image_of(samples.register_broker(1)).brokers[1]
    assert broker.online(uuid(101))
    assert not broker.online(uuid(102))
    assert broker.online(DirectoryId.UNASSIGNED)
    assert not broker.online(DirectoryId.LOST)
    assert broker.replace(directories=()).online(uuid(102))


def test_an_unregistered_broker_leaves_the_image() -> None:
    image = image_of(samples.register_broker(1, epoch=10))
    before = image.brokers[1]
    changes = image.replay(records.UnregisterBrokerRecord(broker_id=1, broker_epoch=10))
    assert list(changes) == [BrokerChanged(before, None)]
    assert image == Image()


# Other records -----------------------------------------------------------------------------------


def test_replay_returns_changes_of_topics_configs_and_features() -> None:
    image = Image()
    assert [*image.replay(TOPIC)] == [TopicCreated(image.topics[uuid(1)])]
    assert [*image.replay(samples.config("a", "k", "v"))] == [ConfigChanged(2, "a", "k", "v")]
    assert [*image.replay(samples.feature("f", 1))] == [FeatureChanged("f", 1)]


#: A value of each kind that a record can delete, and that record.
DELETED = [
    (samples.config("a", "k", "v"), samples.config("a", "k", None)),
    (samples.quota("u", "k", 1.0), samples.quota("u", "k", 0.0, remove=True)),
    (samples.feature("f", 1), samples.feature("f", 0)),
    (samples.acl(1), records.RemoveAccessControlEntryRecord(id=uuid(1))),
    (samples.scram("u"), records.RemoveUserScramCredentialRecord(name="u", mechanism=1)),
    (samples.token("t"), records.RemoveDelegationTokenRecord(token_id="t")),
    (samples.controller(7), records.UnregisterControllerRecord(controller_id=7)),
]


@pytest.mark.parametrize(("added", "removed"), DELETED)
def test_a_deleted_value_leaves_nothing(added: Message, removed: Message) -> None:
    image = image_of(added)
    assert image != Image()
    image.replay(removed)
    assert image == Image()


def test_the_deleted_values_are_of_every_kind() -> None:
    """RemoveTopicRecord has a test of its own."""
    removals = {cls for cls in REPLAY if cls.__name__.startswith("Remove")}
    deleted = {type(removed) for _, removed in DELETED}
    assert removals - deleted == {records.RemoveTopicRecord}


def test_deleting_an_unset_value_changes_nothing() -> None:
    nothing = (
        samples.config("a", "k", None),
        samples.quota("u", "k", 0.0, remove=True),
        samples.feature("f", 0),
        records.NoOpRecord(),
        records.ZkMigrationStateRecord(zk_migration_state=0),
        # Kafka's controller may remove a token twice.
        records.RemoveDelegationTokenRecord(token_id="t"),
    )
    assert image_of(*nothing) == Image()


def test_producer_ids_only_grow() -> None:
    image = image_of(samples.producer_ids(1000))
    assert (image.next_producer_id, Image().next_producer_id) == (1000, 0)
    with pytest.raises(ReplayError):
        image.replay(samples.producer_ids(500))


@pytest.mark.parametrize(
    "record",
    [
        samples.partition(9, 0),
        change(9),
        samples.topic(2, "a"),
        samples.topic(1, "another"),
        records.RemoveTopicRecord(topic_id=uuid(9)),
        records.ClearElrRecord(topic_name="unknown"),
        records.FenceBrokerRecord(id=1, epoch=9),
        records.UnregisterBrokerRecord(broker_id=2, broker_epoch=10),
        records.UnregisterControllerRecord(controller_id=2),
        records.RemoveAccessControlEntryRecord(id=uuid(9)),
        records.EndTransactionRecord(),
    ],
)
def test_a_contradicting_record_is_an_error_and_changes_nothing(record: Message) -> None:
    """C225."""
    log = (TOPIC, samples.register_broker(1, epoch=10))
    image = image_of(*log)
    with pytest.raises(ReplayError):
        image.replay(record)
    assert image == image_of(*log)


# Transactions ------------------------------------------------------------------------------------

BEGIN = records.BeginTransactionRecord(name="n")


def test_a_transaction_takes_effect_at_its_end() -> None:
    image = image_of(BEGIN)
    assert [*image.replay(TOPIC)] == []
    assert image.topics == {}
    changes = image.replay(records.EndTransactionRecord())
    assert list(changes) == [TopicCreated(image.topics[uuid(1)])]
    assert image == image_of(TOPIC)


def test_an_aborted_transaction_has_no_effect() -> None:
    image = image_of(BEGIN, TOPIC, records.AbortTransactionRecord(reason="r"))
    assert image == Image()


def test_nested_transactions_are_an_error() -> None:
    with pytest.raises(ReplayError):
        image_of(BEGIN, BEGIN)


def test_an_image_is_not_equal_to_other_types() -> None:
    assert Image() != object()
