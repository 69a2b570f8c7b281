"""ConsumerGroupHeartbeat: members join, reconcile, change what they want, and leave."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.consumer.states import ConsumerGroupState, MemberState
from kraftlog.groups.consumer.target import RacksOfTopics
from kraftlog.metadata.values import BrokerImage
from kraftlog.wire.messages import consumer_group_records as records
from tests.groups.consumer.consumer_harness import (
    REVOKE_MS,
    ConsumerHarness,
    T,
    assigned,
    described,
)
from tests.groups.shard_harness import OK, WALL_MS


def test_the_first_member_gets_all_partitions_in_one_batch() -> None:
    harness = ConsumerHarness()
    response = harness.enter("a")
    assert (response.error_code, response.member_id, response.member_epoch) == (OK, "a", 2)
    assert response.heartbeat_interval_ms == 5_000
    assert assigned(response) == {T: [0, 1, 2, 3, 4, 5]}
    assert harness.group.metadata_hash != 0
    assert harness.written() == [
        (
            records.ConsumerGroupMemberMetadataKey(group_id="g", member_id="a"),
            records.ConsumerGroupMemberMetadataValue(
                instance_id=None,
                rack_id=None,
                client_id="c",
                client_host="/127.0.0.1",
                subscribed_topic_names=("t",),
                subscribed_topic_regex="",
                rebalance_timeout_ms=REVOKE_MS,
                server_assignor=None,
                classic_member_metadata=None,
            ),
        ),
        (
            records.ConsumerGroupMetadataKey(group_id="g"),
            records.ConsumerGroupMetadataValue(epoch=2, metadata_hash=harness.group.metadata_hash),
        ),
        (
            records.ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="a"),
            records.ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=(
                    records.TopicPartition(topic_id=T, partitions=(0, 1, 2, 3, 4, 5)),
                )
            ),
        ),
        (
            records.ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
            records.ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=2, assignment_timestamp=WALL_MS
            ),
        ),
        (
            records.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="a"),
            records.ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=2,
                previous_member_epoch=0,
                state=MemberState.STABLE,
                assigned_partitions=(
                    records.TopicPartitions(
                        topic_id=T,
                        partitions=(0, 1, 2, 3, 4, 5),
                        assignment_epochs=(2, 2, 2, 2, 2, 2),
                    ),
                ),
                partitions_pending_revocation=(),
            ),
        ),
    ]


def test_a_partition_is_given_only_once_its_owner_has_revoked_it() -> None:
    harness = ConsumerHarness()
    a = harness.enter("a").member_epoch
    b = harness.enter("b")
    assert (assigned(b), harness.group_state()) == ({}, ConsumerGroupState.RECONCILING)
    told = harness.beat("a", a, owned={T: range(6)})
    assert (told.member_epoch, assigned(told)) == (a, {T: [0, 1, 2]})
    # Neither a heartbeat without its partitions nor one that still has them counts.
    assert assigned(harness.beat("a", a)) is None
    harness.beat("a", a, owned={T: range(6)})
    assert assigned(harness.beat("b", b.member_epoch)) is None
    assert harness.group.members["a"].state == MemberState.UNREVOKED_PARTITIONS
    assert harness.group.members["b"].state == MemberState.UNRELEASED_PARTITIONS
    done = harness.beat("a", a, owned={T: range(3)})
    assert (done.member_epoch, assigned(done)) == (b.member_epoch, None)
    got = harness.beat("b", b.member_epoch)
    assert assigned(got) == {T: [3, 4, 5]}
    assert harness.group_state() == ConsumerGroupState.STABLE


def test_a_heartbeat_without_news_writes_nothing() -> None:
    harness = ConsumerHarness()
    a, b = harness.share_topic()
    count = len(harness.log)
    for member, epoch in (("a", a), ("b", b)):
        response = harness.beat(member, epoch)
        assert (response.error_code, assigned(response)) == (OK, None)
    assert len(harness.log) == count
    full = harness.beat("a", a, topics=["t"], owned={T: range(3)}, revoke_ms=REVOKE_MS)
    assert assigned(full) == {T: [0, 1, 2]}
    assert len(harness.log) == count


def test_a_leaving_members_partitions_go_to_the_others() -> None:
    harness = ConsumerHarness()
    _, b = harness.share_topic()
    left = harness.beat("a", -1)
    assert (left.member_epoch, left.heartbeat_interval_ms) == (-1, 0)
    assert harness.group_state() == ConsumerGroupState.ASSIGNING
    got = harness.beat("b", b)
    assert (got.member_epoch, assigned(got)) == (b + 1, {T: [0, 1, 2, 3, 4, 5]})
    first = len(harness.log)
    harness.beat("b", -1)
    assert harness.group_state() == ConsumerGroupState.EMPTY
    assert [
        type(key).__name__.removeprefix("ConsumerGroup") for key, _ in harness.written(first)
    ] == [
        "CurrentMemberAssignmentKey",
        "TargetAssignmentMemberKey",
        "MemberMetadataKey",
        "MetadataKey",
        "TargetAssignmentMetadataKey",
    ]


def test_members_that_join_together_get_one_target_per_interval() -> None:
    harness = ConsumerHarness(consumer_assignment_interval_ms=1_000)
    harness.enter("a")
    harness.advance(1)
    for member in "bcd":
        assert assigned(harness.enter(member)) == {}
    assert (harness.group.epoch, harness.group.target_epoch) == (5, 2)
    harness.advance(999)
    harness.beat("b", harness.group.members["b"].epoch)
    assert (harness.group.epoch, harness.group.target_epoch) == (5, 5)
    assert sorted(harness.group.targets) == ["a", "b", "c", "d"]


def test_a_change_of_the_preferred_assignor_is_another_epoch() -> None:
    harness = ConsumerHarness()
    a = harness.enter("a").member_epoch
    assert harness.beat("a", a, assignor="uniform").member_epoch == a
    assert harness.beat("a", a, assignor="range").member_epoch == a + 1
    assert harness.shard.describe_consumer_group("g").assignor_name == "range"


def test_a_topic_that_is_not_subscribed_any_more_is_revoked_at_once() -> None:
    harness = ConsumerHarness()
    u = harness.create_topic("u", 2)
    a = harness.enter("a", "t", "u").member_epoch
    told = harness.beat("a", a, topics=["u"], owned={T: range(6), u: range(2)})
    assert assigned(told) == {u: [0, 1]}
    done = harness.beat("a", a, owned={u: range(2)})
    assert (done.error_code, done.member_epoch) == (OK, a + 1)
    assert harness.group.owners == {u: {0: "a", 1: "a"}}


def test_topics_that_appear_grow_and_go_are_assigned_with_the_next_beat() -> None:
    harness = ConsumerHarness()
    a = harness.enter("a", "u")
    assert (a.member_epoch, assigned(a)) == (2, {})
    u = harness.create_topic("u", 1)
    got = harness.beat("a", 2)
    assert (got.member_epoch, assigned(got)) == (3, {u: [0]})
    harness.grow_topic("u", 2)
    assert assigned(harness.beat("a", 3)) == {u: [0, 1]}
    harness.delete_topic("u")
    again = harness.create_topic("u", 1)
    assert again != u
    told = harness.beat("a", 4, owned={u: [0, 1]})
    assert (told.member_epoch, assigned(told)) == (4, {})
    assert assigned(harness.beat("a", 4, owned={})) == {again: [0]}


def test_another_topic_changes_nothing() -> None:
    harness = ConsumerHarness()
    a = harness.enter("a").member_epoch
    count = len(harness.log)
    harness.create_topic("other", 1)
    assert harness.beat("a", a).member_epoch == a
    assert len(harness.log) == count


def test_no_more_members_than_the_limit_may_join() -> None:
    harness = ConsumerHarness(consumer_max_size=2)
    harness.enter("a", instance="i")
    harness.enter("b")
    refused = harness.enter("c")
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.error_message == (
        "The consumer group has reached its maximum capacity of 2 members."
    )
    assert harness.enter("b").error_code == OK
    harness.beat("a", -2, instance="i")
    assert harness.enter("d", instance="i").error_code == OK


def test_a_version_0_member_gets_an_id() -> None:
    harness = ConsumerHarness()
    response = harness.enter("", version=0)
    assert response.member_id == "1"
    assert harness.enter("", version=1).error_code == ErrorCode.INVALID_REQUEST


def test_the_group_configs_apply_to_their_group_alone() -> None:
    harness = ConsumerHarness()
    harness.image.configs[32, "g"] = {"consumer.heartbeat.interval.ms": "7000"}
    harness.image.configs[32, "h"] = {"consumer.heartbeat.interval.ms": "1"}
    assert harness.enter("a").heartbeat_interval_ms == 7_000
    assert harness.enter("a", group="h").heartbeat_interval_ms == 5_000  # the smallest accepted
    assert harness.enter("a", group="i").heartbeat_interval_ms == 5_000


# Failed and pending batches -------------------------------------------------------------------


def test_a_response_waits_for_the_batch_with_its_state() -> None:
    harness = ConsumerHarness()
    harness.commits_at_once = False
    join = harness.send_join("a")
    beat = harness.send("a", 2)
    assert join not in harness.responses
    assert beat not in harness.responses, "it tells of an epoch that may be lost"
    assert harness.shard.describe_consumer_group("g").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert harness.shard.list_groups([], []) == []
    harness.commit()
    assert harness.outcome(join).member_epoch == harness.outcome(beat).member_epoch == 2
    assert harness.shard.describe_consumer_group("g").group_epoch == 2


def test_decisions_rest_on_batches_that_are_not_committed_yet() -> None:
    harness = ConsumerHarness()
    harness.commits_at_once = False
    joins = [harness.send_join(member) for member in "ab"]
    harness.commit()
    assert [harness.outcome(join).member_epoch for join in joins] == [2, 3]
    assert sorted(harness.group.members) == ["a", "b"]


def test_a_failed_batch_leaves_the_group_as_the_log_has_it() -> None:
    harness = ConsumerHarness()
    a, b = harness.share_topic()
    before = described(harness.group)
    harness.commits_at_once = False
    pending = [
        harness.send("a", a, topics=[]),
        harness.send("b", -1),
        harness.send_join("c"),
        harness.send("b", b),
    ]
    harness.fail()
    expected = [ErrorCode.NOT_COORDINATOR] * 3 + [ErrorCode.UNKNOWN_MEMBER_ID]
    assert [harness.outcome(each).error_code for each in pending] == expected
    assert described(harness.group) == before
    harness.commits_at_once = True
    for member, epoch in (("a", a), ("b", b)):
        assert harness.beat(member, epoch).error_code == OK


def test_a_new_group_whose_batch_fails_is_gone() -> None:
    harness = ConsumerHarness()
    harness.commits_at_once = False
    join = harness.send_join("a")
    harness.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert harness.outcome(join).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.group_state() == "none"
    harness.advance(100_000)
    assert harness.pending_writes == []


def test_after_a_failure_the_batches_behind_it_count() -> None:
    """As for a coordinator that loads the log: it has them, without the failed one."""
    harness = ConsumerHarness()
    harness.enter("a")
    harness.commits_at_once = False
    harness.send("a", 2, topics=["t", "u"])
    harness.send_join("b")
    harness.fail(count=1)
    assert harness.group.members["a"].topic_names == frozenset("t")
    assert "b" in harness.group.members
    harness.commit()
    assert described(harness.reloaded().consumer_groups["g"]) == described(harness.group)


def test_a_member_whose_removal_fails_is_removed_later() -> None:
    harness = ConsumerHarness()
    harness.enter("a")
    harness.commits_at_once = False
    harness.advance(45_000)
    assert harness.group.members == {}
    harness.fail()
    assert list(harness.group.members) == ["a"]
    harness.commits_at_once = True
    harness.advance(45_000)
    assert harness.group.members == {}


def test_a_moved_group_goes_on_where_it_was() -> None:
    harness = ConsumerHarness()
    a, b = harness.share_topic()
    before = described(harness.group)
    harness.move()
    assert described(harness.group) == before
    count = len(harness.log)
    assert harness.beat("a", a).error_code == harness.beat("b", b).error_code == OK
    assert len(harness.log) == count


def test_unloading_answers_what_waits() -> None:
    harness = ConsumerHarness()
    harness.commits_at_once = False
    join, beat = harness.send_join("a"), harness.send("a", 2)
    harness.shard.unload(harness.now)
    harness.settle()
    codes = [harness.outcome(each).error_code for each in (join, beat)]
    assert codes == [ErrorCode.NOT_COORDINATOR] * 2


# Older and newer records ----------------------------------------------------------------------


def replayed(*pairs: tuple[Any, Any]) -> ConsumerHarness:
    """A shard that was loaded from these records, each with a version 0 value."""
    from kraftlog.groups.records import GroupRecord

    harness = ConsumerHarness()
    harness.log = [
        (offset, *GroupRecord(key, value, 0 if value is not None else -1).encoded())
        for offset, (key, value) in enumerate(pairs)
    ]
    harness.move()
    return harness


def member_records(state: int = MemberState.STABLE, epoch: int = 5) -> list[tuple[Any, Any]]:
    """A member as Kafka before 4.4 writes it: its partitions have no epochs."""
    return [
        (
            records.ConsumerGroupMemberMetadataKey(group_id="g", member_id="a"),
            records.ConsumerGroupMemberMetadataValue(
                instance_id=None,
                rack_id=None,
                client_id="c",
                client_host="/127.0.0.1",
                subscribed_topic_names=("t",),
                subscribed_topic_regex="",
                rebalance_timeout_ms=1,
                server_assignor=None,
                classic_member_metadata=None,
            ),
        ),
        (
            records.ConsumerGroupMetadataKey(group_id="g"),
            records.ConsumerGroupMetadataValue(epoch=epoch),
        ),
        (
            records.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="a"),
            records.ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=epoch,
                previous_member_epoch=epoch - 1,
                state=state,
                assigned_partitions=(records.TopicPartitions(topic_id=T, partitions=(0, 1)),),
                partitions_pending_revocation=(),
            ),
        ),
    ]


def test_partitions_without_epochs_have_that_of_the_member() -> None:
    harness = replayed(*member_records())
    assert harness.group.members["a"].assigned == {T: {0: 5, 1: 5}}
    assert harness.group.owners == {T: {0: "a", 1: "a"}}


def test_the_record_of_older_coordinators_gets_a_tombstone() -> None:
    old = (
        records.ConsumerGroupPartitionMetadataKey(group_id="g"),
        records.ConsumerGroupPartitionMetadataValue(topics=()),
    )
    harness = replayed(*member_records(), old)
    first = len(harness.log)
    harness.beat("a", 5, owned={T: [0, 1]})
    assert (old[0], None) in harness.written(first)
    assert not harness.group.has_partition_metadata


@pytest.mark.parametrize("owned", [None, {T: [0]}], ids=["unsaid", "some"])
def test_a_member_in_an_unknown_state_must_rejoin(owned: Any) -> None:
    harness = replayed(*member_records(state=9))
    refused = harness.beat("a", 5, owned=owned)
    assert refused.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert harness.enter("a").error_code == OK


def test_a_compacted_log_in_any_order_gives_the_same_group() -> None:
    in_order = replayed(*member_records())
    reversed_records = replayed(*reversed(member_records()))
    assert described(in_order.group) == described(reversed_records.group)


def test_an_assignor_gets_the_racks_of_all_partitions() -> None:
    harness = ConsumerHarness()
    harness.image.brokers[1] = BrokerImage(1, 1, bytes(16), (), rack="r")
    topic = harness.image.topics[T]
    racks = RacksOfTopics(harness.topics, [topic])
    assert dict(racks) == {T: dict.fromkeys(range(6), frozenset("r"))}
    assert len(racks) == 1


def test_racks_are_part_of_the_hash_of_topics() -> None:
    harness = ConsumerHarness()
    a = harness.enter("a").member_epoch
    harness.image.brokers[1] = BrokerImage(1, 1, bytes(16), (), rack="r")
    harness.topics.changed(T)
    assert harness.beat("a", a).member_epoch == a + 1
