"""OffsetCommit, OffsetFetch, OffsetDelete, and offsets of topics that are deleted."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.offsets import REMOVED_AT_ONCE, commit_error
from tests.groups.shard_harness import LATEST, OK, WALL_MS, ShardHarness, codes
from tests.node.turn_cost import count_calls

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
ID_A, ID_B = b"a" * 16, b"b" * 16


def commit_code(harness: ShardHarness, *args: object, **kwargs: object) -> int:
    """Commit an offset of t-0; return the error code."""
    [code] = codes(harness.outcome(harness.commit_offsets({T0: 7}, *args, **kwargs)))  # type: ignore[arg-type]  # passed on
    return code


# OffsetCommit --------------------------------------------------------------------------------


def test_a_commit_is_visible_once_it_is_in_the_log() -> None:
    harness = ShardHarness(commits_at_once=False)
    pending = harness.commit_offsets({T0: 7, U0: 9}, epoch=3, metadata="here")
    assert pending not in harness.responses
    assert harness.offsets(T0, U0) == {T0: -1, U0: -1}
    harness.commit()
    assert codes(harness.outcome(pending)) == [OK, OK]
    outcome = harness.outcome(harness.fetch(T0)).topics[0].partitions[0]
    assert (outcome.committed_offset, outcome.committed_leader_epoch, outcome.metadata) == (
        7,
        3,
        "here",
    )
    assert harness.offsets() == {T0: 7, U0: 9}


def test_pending_commits_complete_in_order() -> None:
    harness = ShardHarness(commits_at_once=False)
    first, second = harness.commit_offsets({T0: 7}), harness.commit_offsets({T0: 8})
    harness.commit(1)
    assert (first in harness.responses, second in harness.responses) == (True, False)
    assert harness.offsets(T0) == {T0: 7}
    harness.commit()
    assert harness.offsets(T0) == {T0: 8}


def test_every_wrong_commit_gets_its_error_code() -> None:
    harness = ShardHarness()
    assert commit_code(harness, "c-1", 0) == ErrorCode.GROUP_ID_NOT_FOUND
    assert commit_code(harness, "c-1", 0, version=8) == ErrorCode.ILLEGAL_GENERATION
    ids = harness.request_member_ids(2)
    assert commit_code(harness) == OK  # the group has no members yet
    leader = harness.join_generation(ids)
    assert commit_code(harness, ids[1], 1) == ErrorCode.REBALANCE_IN_PROGRESS
    harness.assign(leader)
    assert commit_code(harness, ids[1], 1) == OK
    assert commit_code(harness, ids[1], 0) == ErrorCode.ILLEGAL_GENERATION
    assert commit_code(harness, ids[1]) == ErrorCode.ILLEGAL_GENERATION
    assert commit_code(harness, "nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        commit_code(harness) == ErrorCode.UNKNOWN_MEMBER_ID
    )  # a commit without a member id, while there are members
    assert commit_code(harness, ids[1], 1, instance="i") == ErrorCode.UNKNOWN_MEMBER_ID
    harness.join(ids[0])
    assert (
        commit_code(harness, ids[1], 1) == OK
    )  # a commit for the records that it read before the rebalance


def test_transactional_commits_of_old_clients_have_no_member_id() -> None:
    harness = ShardHarness()
    harness.make_stable_group(1)
    group = harness.shard.groups["g"]
    assert commit_error(group, "", None, -1, is_transactional=True) == OK
    assert commit_error(group, "x", None, 1, is_transactional=True) != OK


def test_the_metadata_limit_counts_utf_16_units() -> None:
    harness = ShardHarness(offset_metadata_max_bytes=10)
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit_code(harness, metadata="x" * 11) == too_large
    assert harness.shard.groups == {}
    assert commit_code(harness, metadata="\N{SLIGHTLY SMILING FACE}" * 6) == too_large
    assert commit_code(harness, metadata="\N{SLIGHTLY SMILING FACE}" * 5) == OK
    assert commit_code(harness, metadata="x" * 10) == OK


def test_an_empty_commit_gets_a_response() -> None:
    harness = ShardHarness()
    assert harness.outcome(harness.commit_offsets({})).topics == []
    assert harness.log == []


def test_retention_time_of_old_versions_is_stored() -> None:
    harness = ShardHarness()
    assert commit_code(harness, version=4, retention_ms=1000, epoch=3) == OK
    offset = harness.shard.durable.offsets.get("g", *T0)
    assert offset is not None
    assert (offset.commit_timestamp, offset.expire_timestamp) == (WALL_MS, WALL_MS + 1000)
    assert harness.log[0][2] is not None
    assert harness.log[0][2][:2] == b"\x00\x01"
    assert harness.reloaded().durable.offsets.get("g", *T0) == offset


def test_a_version_10_response_has_the_requests_topic_ids() -> None:
    harness = ShardHarness()
    outcome = harness.outcome(harness.commit_offsets({T0: 7}, version=10, topic_id=ID_A))
    assert outcome.topics[0].topic_id == ID_A


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_RECORD),
    ],
)
def test_a_commit_that_fails_leaves_nothing(error: int, outcome: int) -> None:
    harness = ShardHarness(commits_at_once=False)
    pending = harness.commit_offsets({T0: 7})
    harness.fail(error)
    assert codes(harness.outcome(pending)) == [outcome]
    assert harness.shard.groups == {}
    assert harness.offsets() == {}


# OffsetFetch ---------------------------------------------------------------------------------


def test_an_uncommitted_offset_is_minus_one() -> None:
    harness = ShardHarness()
    part = harness.outcome(harness.fetch(T0)).topics[0].partitions[0]
    assert (part.committed_offset, part.committed_leader_epoch, part.metadata, part.error_code) == (
        -1,
        -1,
        "",
        OK,
    )
    assert harness.outcome(harness.fetch()).topics == []


def test_a_fetch_of_stable_offsets_waits_for_pending_commits() -> None:
    harness = ShardHarness(commits_at_once=False)
    harness.commit_offsets({T0: 7})
    unstable, stable, other_group = (
        harness.fetch(T0),
        harness.fetch(T0, stable=True),
        harness.fetch(T0, group="h", stable=True),
    )
    assert {unstable, other_group} <= harness.responses.keys()
    assert stable not in harness.responses
    harness.commit()
    assert harness.outcome(stable).topics[0].partitions[0].committed_offset == 7


def test_a_fetch_that_waits_for_a_failed_write_gets_not_coordinator() -> None:
    harness = ShardHarness(commits_at_once=False)
    harness.commit_offsets({T0: 7})
    stable = harness.fetch(T0, stable=True)
    harness.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert harness.outcome(stable).error_code == ErrorCode.NOT_COORDINATOR


def test_an_offset_of_a_former_topic_is_not_returned() -> None:
    harness = ShardHarness()
    commit_code(harness, topic_id=ID_A)
    for topic_id, offset in ((ID_A, 7), (ID_B, -1), (bytes(16), 7)):
        outcome = harness.outcome(harness.fetch(T0, topic_id=topic_id)).topics[0]
        assert (outcome.topic_id, outcome.partitions[0].committed_offset) == (topic_id, offset)


# OffsetDelete --------------------------------------------------------------------------------


def test_existing_offsets_are_deleted() -> None:
    harness = ShardHarness()
    harness.commit_offsets({T0: 7, T1: 8})
    before = len(harness.log)
    assert codes(harness.outcome(harness.delete_offsets(T0, U0))) == [OK, OK]
    assert harness.log[before:] == [(2, b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00", None)]
    assert harness.offsets() == {T1: 8}
    assert codes(harness.outcome(harness.delete_offsets(U0))) == [OK]
    assert len(harness.log) == before + 1


def test_a_pending_offset_is_deleted_too() -> None:
    harness = ShardHarness(commits_at_once=False)
    harness.commit_offsets({T0: 7})
    pending = harness.delete_offsets(T0)
    harness.commit(1)
    assert harness.offsets() == {T0: 7}
    harness.commit()
    assert harness.offsets() == {}
    assert codes(harness.outcome(pending)) == [OK]


def test_every_wrong_offset_delete_gets_its_error_code() -> None:
    harness = ShardHarness()
    assert (
        harness.outcome(harness.delete_offsets(T0, group="")).error_code
        == ErrorCode.INVALID_GROUP_ID
    )
    assert harness.outcome(harness.delete_offsets(T0)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    harness.make_stable_group(1)
    harness.commit_offsets({T0: 7, U0: 8}, "c-1", 1)
    outcome = harness.outcome(harness.delete_offsets(T0, U0))
    assert codes(outcome) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, OK]
    assert harness.offsets() == {T0: 7}
    harness.make_stable_group(1, group="h", protocol_type="connect")
    outcome = harness.outcome(harness.delete_offsets(T0, group="h"))
    assert outcome.error_code == ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize("metadata", [b"", b"\x00\x00\x00", b"\x00\x00\x7f\xff\xff\xff"])
def test_undecodable_subscriptions_count_as_all_topics(metadata: bytes) -> None:
    harness = ShardHarness()
    harness.make_stable_group(1, protocols=(("mine", metadata),))
    harness.commit_offsets({U0: 8}, "c-1", 1)
    assert codes(harness.outcome(harness.delete_offsets(U0))) == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    ]


def test_a_deletion_that_fails_deletes_nothing() -> None:
    harness = ShardHarness()
    harness.commit_offsets({T0: 7})
    harness.commits_at_once = False
    pending = harness.delete_offsets(T0)
    harness.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    outcome = harness.outcome(pending)
    assert (outcome.error_code, outcome.topics) == (ErrorCode.NOT_COORDINATOR, ())
    assert harness.offsets() == {T0: 7}


# Deleted topics ------------------------------------------------------------------------------


def test_offsets_of_a_recreated_topic_stay() -> None:
    harness = ShardHarness()
    harness.commit_offsets({T0: 1}, group="old", topic_id=ID_A)
    harness.commit_offsets({T0: 2, U0: 3}, group="older")
    harness.commit_offsets({T0: 4}, group="new", topic_id=ID_B)
    harness.shard.delete_offsets_of_partitions("t", ID_A, 0, harness.now)
    harness.settle()
    assert [harness.offsets(group=each) for each in ("old", "older", "new")] == [
        {},
        {U0: 3},
        {T0: 4},
    ]


def test_v11_offsets_of_removed_partitions_are_deleted() -> None:
    harness = ShardHarness()
    harness.commit_offsets({T0: 1, ("t", 1): 2, ("t", 2): 3, ("u", 1): 4})
    harness.shard.delete_offsets_of_partitions("t", ID_A, 1, harness.now)
    harness.settle()
    assert harness.offsets() == {T0: 1, ("u", 1): 4}


def test_deleting_a_topic_visits_no_group_without_offsets_of_it() -> None:
    harness = ShardHarness()
    for number in range(500):
        harness.commit_offsets({U0: 1}, group=f"group-{number}")
    assert (
        count_calls(lambda: harness.shard.delete_offsets_of_partitions("t", ID_A, 0, harness.now))
        < 50
    )
    assert not harness.shard.has_offsets_of("t")
    assert harness.shard.has_offsets_of("u")


def test_offsets_of_a_deleted_topic_are_deleted_in_slices() -> None:
    harness = ShardHarness()
    groups = [f"group-{number}" for number in range(3 * REMOVED_AT_ONCE)]
    for group in groups:
        harness.commit_offsets({T0: 1}, group=group)

    def groups_with_offsets() -> int:
        return sum(bool(harness.offsets(group=group)) for group in groups)

    harness.shard.delete_offsets_of_partitions("t", ID_A, 0, harness.now)
    harness.settle()
    assert groups_with_offsets() == 2 * REMOVED_AT_ONCE
    harness.commit_offsets({T0: 2}, group=groups[-1])  # of a new topic of that name
    harness.advance(1)
    assert groups_with_offsets() == REMOVED_AT_ONCE
    harness.advance(1)
    assert harness.offsets(group=groups[-1]) == {T0: 2}
    assert groups_with_offsets() == 1
    harness.commit_offsets({T0: 3}, group=groups[0])
    assert groups_with_offsets() == 2


def test_the_default_versions_of_the_harness_are_the_latest() -> None:
    """So the tests use by default the versions that current clients use."""
    from kraftlog.wire.messages.describe_groups import DescribeGroupsRequest
    from kraftlog.wire.messages.join_group import JoinGroupRequest
    from kraftlog.wire.messages.leave_group import LeaveGroupRequest

    latest = {
        "join": JoinGroupRequest._versions[1],
        "leave": LeaveGroupRequest._versions[1],
        "describe": DescribeGroupsRequest._versions[1],
        "commit": 9,  # the last with topic names; 10 has topic ids
    }
    assert latest == LATEST
