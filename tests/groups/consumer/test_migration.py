"""Groups change between the protocols, with their members."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.consumer.states import ConsumerGroupState
from kraftlog.groups.states import GroupState
from kraftlog.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from kraftlog.wire.record_frames import decode_consumer_protocol, encode_versioned
from tests.groups.consumer.consumer_harness import SESSION_MS, ConsumerHarness, T, assigned
from tests.groups.shard_harness import OK, REBALANCE_MS
from tests.groups.shard_harness import SESSION_MS as CLASSIC_SESSION_MS


def subscription(*indexes: int) -> tuple[tuple[str, bytes], ...]:
    """The protocols of a member that subscribes to `t` and has these partitions."""
    owned = [TopicPartition(topic="t", partitions=indexes)] if indexes else []
    message = ConsumerProtocolSubscription(topics=["t"], owned_partitions=owned)
    return (("range", encode_versioned(message, 1)),)


def assignment(*indexes: int) -> bytes:
    part = ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=indexes)
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=[part]), 1)


def indexes_in(raw: bytes) -> list[int]:
    decoded = decode_consumer_protocol(ConsumerProtocolAssignment, raw)
    return [index for part in decoded.assigned_partitions for index in part.partitions]


def classic_group(**config: Any) -> tuple[ConsumerHarness, str]:
    """A classic group whose only member has all partitions of `t`; and the member's id."""
    harness = ConsumerHarness(**config)
    [member_id] = harness.request_member_ids(protocols=subscription())
    harness.join_generation([member_id], protocols=subscription())
    harness.sync(member_id, 1, {member_id: assignment(*range(6))})
    return harness, member_id


def rejoin(harness: ConsumerHarness, member_id: str, *owned: int) -> tuple[int, list[int]]:
    """Join as a classic member with these partitions; return the generation and the new ones."""
    joined = harness.outcome(harness.join(member_id, protocols=subscription(*owned)))
    assert joined.error_code == OK
    synced = harness.outcome(
        harness.sync(member_id, joined.generation_id, protocol="range", protocol_type="consumer")
    )
    assert synced.error_code == OK
    return joined.generation_id, indexes_in(synced.assignment)


def upgraded_group() -> tuple[ConsumerHarness, str, int]:
    """A group of a classic member and `~a`, with half of `t` each; and the classic's epoch."""
    harness, member_id = classic_group()
    harness.enter("~a")
    assert rejoin(harness, member_id, *range(6)) == (1, [0, 1, 2])
    generation, part = rejoin(harness, member_id, 0, 1, 2)
    assert part == [0, 1, 2]
    assert assigned(harness.beat("~a", 2)) == {T: [3, 4, 5]}
    assert harness.group_state() == ConsumerGroupState.STABLE
    return harness, member_id, generation


def test_a_group_is_upgraded_without_a_partition_in_two_hands() -> None:
    harness, member_id, generation = upgraded_group()
    assert generation == 2
    assert harness.heartbeat(member_id, generation) == OK
    assert "g" not in harness.shard.groups
    types = {each.group_type for each in harness.shard.list_groups([], [])}
    assert types == {"consumer"}


def test_a_classic_member_hears_of_a_rebalance_with_its_heartbeat() -> None:
    harness, member_id, generation = upgraded_group()
    harness.beat("~a", -1)
    # The group has gone back to the classic protocol with its last member of the other one.
    assert harness.group_state() == "none"
    assert harness.state() == GroupState.PREPARING
    assert harness.heartbeat(member_id, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    harness.outcome(harness.join(member_id, protocols=subscription(0, 1, 2)))
    assert harness.state() == GroupState.COMPLETING


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_a_group_stays_a_consumer_group_by_policy(policy: str) -> None:
    harness, member_id = classic_group()
    harness.enter("~a")
    rejoin(harness, member_id, *range(6))
    harness.shard.config = harness.config.replace(consumer_migration_policy=policy)
    harness.beat("~a", -1)
    assert list(harness.group.members) == [member_id]
    code = harness.outcome(harness.join(member_id, protocols=subscription())).error_code
    assert code == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL if policy == "disabled" else OK)


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_classic_group_stays_one_by_policy(policy: str) -> None:
    harness, member_id = classic_group(consumer_migration_policy=policy)
    refused = harness.enter("~a")
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.error_message == (
        "Cannot upgrade classic group g to consumer group because online upgrade is disabled."
    )
    assert harness.heartbeat(member_id, 1) == OK


@pytest.mark.parametrize(
    ("protocols", "given", "message"),
    [
        ((("range", b"\0"),), b"", "the embedded consumer protocol is malformed."),
        (
            subscription(),
            encode_versioned(ConsumerProtocolAssignment(assigned_partitions=[], user_data=b"x"), 1),
            "switch to a default assignor before re-attempting the upgrade.",
        ),
    ],
    ids=["malformed", "user data"],
)
def test_a_group_that_cannot_be_upgraded_stays_as_it_is(
    protocols: Any, given: bytes, message: str
) -> None:
    harness = ConsumerHarness()
    [member_id] = harness.request_member_ids(protocols=protocols)
    harness.join_generation([member_id], protocols=protocols)
    harness.sync(member_id, 1, {member_id: given})
    refused = harness.enter("~a")
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.error_message.endswith(message)
    assert harness.heartbeat(member_id, 1) == OK


def test_an_upgrade_in_a_rebalance_answers_those_that_wait() -> None:
    harness = ConsumerHarness()
    ids = harness.request_member_ids(2, protocols=subscription())
    harness.join_generation(ids, protocols=subscription())
    waiting = harness.sync(ids[1], 1)
    harness.enter("~a")
    assert harness.outcome(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert sorted(harness.group.members) == sorted([*ids, "~a"])


def test_an_upgrade_whose_batch_fails_leaves_the_classic_group() -> None:
    harness, member_id = classic_group()
    harness.commits_at_once = False
    join = harness.send_join("~a")
    harness.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert harness.outcome(join).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    harness.commits_at_once = True
    assert (harness.group_state(), harness.state()) == ("none", GroupState.STABLE)
    assert harness.heartbeat(member_id, 1) == OK
    harness.advance(CLASSIC_SESSION_MS)
    assert harness.state() == GroupState.EMPTY


def test_a_downgrade_whose_batch_fails_leaves_the_consumer_group() -> None:
    harness, member_id, generation = upgraded_group()
    harness.commits_at_once = False
    leave = harness.send("~a", -1)
    joined = harness.outcome(harness.join(member_id, protocols=subscription(0, 1, 2)))
    sync = harness.sync(member_id, joined.generation_id, {member_id: assignment(*range(6))})
    harness.fail()
    codes = [harness.outcome(each).error_code for each in (leave, sync)]
    assert codes == [ErrorCode.NOT_COORDINATOR] * 2
    harness.commits_at_once = True
    assert harness.state() == "none"
    assert harness.heartbeat(member_id, generation) == OK
    assert harness.beat("~a", 2).error_code == OK


def test_a_moved_group_of_both_protocols_goes_on() -> None:
    harness, member_id, generation = upgraded_group()
    harness.move()
    assert harness.heartbeat(member_id, generation) == OK
    assert harness.beat("~a", 2).error_code == OK
    harness.beat("~a", -1)
    harness.move()
    assert harness.state() == GroupState.STABLE
    assert harness.shard.groups["g"].generation == 2


def test_a_classic_member_has_its_own_session_timeout() -> None:
    harness, member_id, generation = upgraded_group()
    harness.advance(CLASSIC_SESSION_MS - 1)
    assert harness.heartbeat(member_id, generation) == OK
    harness.advance(CLASSIC_SESSION_MS)
    assert list(harness.group.members) == ["~a"]
    harness.advance(SESSION_MS - 2 * CLASSIC_SESSION_MS)
    assert list(harness.group.members) == ["~a"]


def test_a_classic_member_that_does_not_join_again_is_removed() -> None:
    harness, member_id, generation = upgraded_group()
    harness.enter("~b")
    expected = ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(REBALANCE_MS // 5_000):
        assert harness.heartbeat(member_id, generation) == expected
        harness.beat("~a", harness.group.members["~a"].epoch)
        harness.beat("~b", harness.group.members["~b"].epoch)
        harness.advance(5_000)
    assert member_id not in harness.group.members


def test_a_classic_member_that_does_not_sync_is_removed() -> None:
    harness, member_id, _ = upgraded_group()
    harness.enter("~b")
    joined = harness.outcome(harness.join(member_id, protocols=subscription(0, 1, 2)))
    for _ in range(REBALANCE_MS // 5_000):
        harness.heartbeat(member_id, joined.generation_id)
        harness.beat("~a", harness.group.members["~a"].epoch)
        harness.advance(5_000)
    assert member_id not in harness.group.members
