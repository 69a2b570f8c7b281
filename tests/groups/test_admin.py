"""ListGroups, DescribeGroups, DeleteGroups."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups.states import GroupState
from tests.groups.shard_harness import OK, RANGE, ShardHarness, codes

T0 = ("t", 0)


def results(response: object) -> dict[str, int]:
    return {each.group_id: each.error_code for each in response.results}  # type: ignore[attr-defined]  # any response


# ListGroups ----------------------------------------------------------------------------------


def test_groups_are_listed_by_state_and_type_ignoring_case() -> None:
    harness = ShardHarness()
    harness.make_stable_group(1, group="stable")
    harness.request_member_ids(1, group="new")
    harness.commit_offsets({T0: 1}, group="simple")

    def listed(states: list[str], types: list[str]) -> set[str]:
        return {each.group_id for each in harness.shard.list_groups(states, types)}

    assert listed([], []) == {"stable", "new", "simple"}
    assert listed(["sTable"], ["CLASSIC"]) == {"stable"}
    assert listed(["Empty", "Dead"], []) == {"new", "simple"}
    assert listed([], ["consumer"]) == listed(["nonsense"], []) == set()
    [stable] = harness.shard.list_groups(["stable"], [])
    assert (stable.protocol_type, stable.group_state, stable.group_type) == (
        "consumer",
        "Stable",
        "classic",
    )


# DescribeGroups ------------------------------------------------------------------------------


def test_member_metadata_is_described_only_for_stable_groups() -> None:
    harness = ShardHarness()
    ids = harness.make_stable_group(2)
    outcome = harness.describe()
    assert (
        outcome.error_code,
        outcome.group_state,
        outcome.protocol_type,
        outcome.protocol_data,
    ) == (
        OK,
        "Stable",
        "consumer",
        "range",
    )
    assert [
        (each.member_id, each.client_id, each.client_host, each.member_metadata)
        for each in outcome.members
    ] == [(member_id, "c", "/127.0.0.1", RANGE[0][1]) for member_id in ids]
    assert [each.member_assignment for each in outcome.members] == [b"c-1", b"c-2"]
    harness.join(ids[0])
    outcome = harness.describe()
    assert (outcome.group_state, outcome.protocol_data) == ("PreparingRebalance", "")
    assert [each.member_metadata for each in outcome.members] == [b"", b""]


def test_a_missing_group_is_an_error_since_version_6_and_dead_before() -> None:
    harness = ShardHarness()
    outcome = harness.describe("nowhere")
    assert (outcome.error_code, outcome.error_message, outcome.group_state) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group nowhere not found.",
        "Dead",
    )
    outcome = harness.describe("nowhere", version=5)
    assert (outcome.error_code, outcome.error_message, outcome.group_state) == (OK, None, "Dead")


# DeleteGroups --------------------------------------------------------------------------------


def test_empty_groups_are_deleted_with_their_offsets() -> None:
    harness = ShardHarness()
    [member_id] = harness.make_stable_group(1)
    harness.commit_offsets({T0: 1}, member_id, 1)
    assert results(harness.outcome(harness.delete_groups("g", "nowhere"))) == {
        "g": ErrorCode.NON_EMPTY_GROUP,
        "nowhere": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    harness.leave(member_id)
    before = len(harness.log)
    assert results(harness.outcome(harness.delete_groups("g"))) == {"g": OK}
    assert [(key[:2], value) for _, key, value in harness.log[before:]] == [
        (b"\x00\x01", None),
        (b"\x00\x02", None),
    ]
    assert harness.state() == "none"
    assert harness.reloaded().groups == {}


def test_a_group_is_dead_while_its_tombstones_are_written() -> None:
    harness = ShardHarness()
    [member_id] = harness.make_stable_group(1)
    harness.leave(member_id)
    harness.commit_offsets({T0: 1})
    harness.commits_at_once = False
    pending = harness.delete_groups("g")
    not_available = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.state() == GroupState.DEAD
    assert harness.outcome(harness.join()).error_code == not_available
    assert harness.outcome(harness.sync(member_id, 1)).error_code == not_available
    assert harness.heartbeat(member_id, 1) == not_available
    assert harness.leave(member_id).error_code == not_available
    assert codes(harness.outcome(harness.commit_offsets({T0: 2}))) == [not_available]
    assert harness.offsets() == {T0: 1}
    assert harness.outcome(harness.delete_offsets(T0)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert results(harness.outcome(harness.delete_groups("g"))) == {
        "g": ErrorCode.GROUP_ID_NOT_FOUND
    }
    harness.commit()
    assert results(harness.outcome(pending)) == {"g": OK}
    assert harness.offsets() == {}


def test_a_group_whose_deletion_fails_is_unchanged() -> None:
    harness = ShardHarness()
    harness.commit_offsets({T0: 1})
    since = harness.shard.groups["g"].state_since
    harness.commits_at_once = False
    harness.advance(1000)
    pending = harness.delete_groups("g")
    harness.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert results(harness.outcome(pending)) == {"g": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert (harness.state(), harness.shard.groups["g"].state_since) == (GroupState.EMPTY, since)
    assert harness.offsets() == {T0: 1}


def test_pending_offsets_are_deleted_with_the_group() -> None:
    harness = ShardHarness(commits_at_once=False)
    harness.commit_offsets({T0: 1})
    harness.delete_groups("g", "g")
    harness.commit()
    assert (harness.state(), harness.offsets()) == ("none", {})
    assert harness.reloaded().durable.offsets.by_group == {}


def test_a_deleted_group_id_can_be_used_again() -> None:
    harness = ShardHarness()
    harness.commit_offsets({T0: 1})
    harness.delete_groups("g")
    harness.make_stable_group(1)
    assert (harness.state(), harness.offsets(T0)) == (GroupState.STABLE, {T0: -1})
