"""JoinGroup and rebalances: who is admitted, when a generation is complete, who leads."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.messages import GroupResponse, RequestContext, WriteRecords
from kraftlog.groups.states import VALID_PREVIOUS_STATES, GroupState
from kraftlog.wire.messages.join_group import JoinGroupResponse
from kraftlog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.groups.shard_harness import (
    OK,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    ShardHarness,
    subscription,
)

ROUND_ROBIN = ("roundrobin", subscription("t"))


def test_a_new_member_is_given_an_id_and_the_new_group_is_written() -> None:
    harness = ShardHarness(commits_at_once=False)
    pending = harness.join(client="me")
    assert harness.outcome(pending) == JoinGroupResponse(
        error_code=ErrorCode.MEMBER_ID_REQUIRED,
        protocol_name=None,
        leader="",
        member_id="me-1",
        members=(),
    )
    [write] = harness.pending_writes
    assert write.records[0][0] == b"\x00\x02\x00\x01g"
    assert harness.state() == GroupState.EMPTY


def test_before_version_4_a_new_member_joins_at_once() -> None:
    harness = ShardHarness()
    pending = harness.join(version=3)
    assert pending not in harness.responses
    harness.poll()
    outcome = harness.outcome(pending)
    assert (outcome.error_code, outcome.generation_id, outcome.leader) == (OK, 1, "c-1")
    assert [(each.member_id, each.metadata) for each in outcome.members] == [("c-1", RANGE[0][1])]


def test_version_0_uses_the_session_timeout_as_rebalance_timeout() -> None:
    harness = ShardHarness()
    harness.join(version=0)
    assert harness.shard.groups["g"].rebalance_timeout_ms == SESSION_MS


def test_members_that_start_together_form_one_generation() -> None:
    harness = ShardHarness()
    leader = harness.join_generation(harness.request_member_ids(3))
    assert leader.leader == "c-1"
    assert [each.member_id for each in leader.members] == ["c-1", "c-2", "c-3"]
    assert (leader.protocol_type, leader.protocol_name) == ("consumer", "range")
    assert harness.state() == GroupState.COMPLETING


@pytest.mark.parametrize(
    ("join_fields", "code"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_refused_join_leaves_no_group(join_fields: dict[str, object], code: int) -> None:
    harness = ShardHarness()
    outcome = harness.outcome(harness.join(**join_fields))  # type: ignore[arg-type]  # each has the type it needs
    assert outcome.error_code == code
    assert outcome.member_id == join_fields.get("member_id", "")
    assert harness.shard.groups == {}
    assert harness.log == []


def test_a_joining_member_needs_a_common_protocol() -> None:
    harness = ShardHarness()
    harness.make_stable_group(2)
    for join_fields in ({"protocol_type": "connect"}, {"protocols": (ROUND_ROBIN,)}):
        outcome = harness.outcome(harness.join(**join_fields))
        assert outcome.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.state() == GroupState.STABLE


def test_the_most_preferred_common_protocol_is_chosen() -> None:
    harness = ShardHarness()
    round_robin_first = (ROUND_ROBIN, *RANGE)
    joins = [
        harness.join(version=3, protocols=p)
        for p in ((*RANGE, ROUND_ROBIN), round_robin_first, round_robin_first)
    ]
    harness.poll()
    assert {harness.outcome(pending).protocol_name for pending in joins} == {"roundrobin"}
    joins = [
        harness.join("c-1"),
        harness.join("c-2", protocols=round_robin_first),
        harness.join("c-3", protocols=round_robin_first),
    ]
    assert {harness.outcome(pending).protocol_name for pending in joins} == {"range"}


def test_the_first_of_duplicate_protocols_counts() -> None:
    harness = ShardHarness()
    pending = harness.join(version=3, protocols=(*RANGE, ("range", b"again")))
    harness.poll()
    assert harness.outcome(pending).members[0].metadata == RANGE[0][1]
    assert harness.leave("c-1").members[0].error_code == OK
    assert harness.shard.groups["g"].supporter_counts == {}


# The initial delay ---------------------------------------------------------------------------


def test_the_initial_delay_waits_for_members() -> None:
    harness = ShardHarness(initial_rebalance_delay_ms=3000)
    first = harness.join(version=3)
    harness.advance(2999)
    assert first not in harness.responses
    harness.advance(1)
    assert harness.outcome(first).error_code == OK


def test_each_join_extends_the_delay_up_to_the_rebalance_timeout() -> None:
    harness = ShardHarness(initial_rebalance_delay_ms=3000)
    first = harness.join(version=3, rebalance_ms=7000)
    harness.advance(2000)
    harness.join(version=3, rebalance_ms=7000)
    harness.advance(3999)
    assert first not in harness.responses
    harness.join(version=3, rebalance_ms=7000)
    harness.advance(1000)
    assert first not in harness.responses
    harness.advance(1)
    assert len(harness.outcome(first).members) == 3
    assert harness.ms == 7000


# Rebalances ----------------------------------------------------------------------------------


def test_a_new_member_makes_all_rejoin() -> None:
    harness = ShardHarness()
    [old] = harness.make_stable_group(1)
    [new] = harness.request_member_ids(1)
    first_join = harness.join(new)
    assert harness.state() == GroupState.PREPARING
    assert first_join not in harness.responses
    assert harness.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    rejoin = harness.join(old)
    assert harness.outcome(rejoin).generation_id == harness.outcome(first_join).generation_id == 2
    assert [each.member_id for each in harness.outcome(rejoin).members] == [old, new]
    assert harness.outcome(first_join).members == ()


def test_a_member_that_does_not_rejoin_in_time_is_removed() -> None:
    harness = ShardHarness()
    old, other = harness.make_stable_group(2)
    [new] = harness.request_member_ids(1)
    joins = [harness.join(new), harness.join(other)]
    for _ in range(REBALANCE_MS // 5000 - 1):
        harness.advance(5000)
        assert harness.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    harness.advance(5000)
    assert {harness.outcome(pending).leader for pending in joins} == {other}
    assert harness.heartbeat(old, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_is_awaited_until_its_session_timeout() -> None:
    harness = ShardHarness()
    [old] = harness.make_stable_group(1)
    harness.request_member_ids(1)
    rejoin = harness.join(old)  # the leader asks for a rebalance
    assert rejoin not in harness.responses
    harness.advance(SESSION_MS)
    assert harness.outcome(rejoin).generation_id == 2


def test_an_unchanged_follower_rejoins_the_current_generation() -> None:
    harness = ShardHarness()
    _, follower = harness.make_stable_group(2)
    outcome = harness.outcome(harness.join(follower))
    assert (outcome.generation_id, outcome.members, outcome.leader) == (1, (), "c-1")
    assert harness.state() == GroupState.STABLE


def test_changed_followers_and_leaders_cause_a_rebalance() -> None:
    for position, protocols in ((1, (("range", subscription("u")),)), (0, RANGE)):
        harness = ShardHarness()
        ids = harness.make_stable_group(2)
        harness.join(ids[position], protocols=protocols)
        assert harness.state() == GroupState.PREPARING


def test_the_leader_receives_the_current_member_metadata() -> None:
    harness = ShardHarness()
    leader, follower = harness.make_stable_group(2)
    changed = (("range", subscription("u")),)
    harness.join(follower, protocols=changed)
    outcome = harness.outcome(harness.join(leader))
    assert {each.member_id: each.metadata for each in outcome.members} == {
        leader: RANGE[0][1],
        follower: changed[0][1],
    }


def test_a_repeated_join_gets_the_same_response_while_completing() -> None:
    harness = ShardHarness()
    ids = harness.request_member_ids(2)
    leader = harness.join_generation(ids)
    assert harness.outcome(harness.join(ids[0])) == leader
    assert harness.outcome(harness.join(ids[1])).members == ()
    harness.join(ids[1], protocols=(("range", subscription("u")),))
    assert harness.state() == GroupState.PREPARING


def test_a_later_join_replaces_the_pending_one() -> None:
    harness = ShardHarness()
    old, _ = harness.make_stable_group(2)
    first = harness.join(old)
    second = harness.join(old)
    assert harness.outcome(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert second not in harness.responses


def test_a_static_member_with_a_pending_id_is_an_error() -> None:
    harness = ShardHarness()
    [member_id] = harness.request_member_ids(1)
    outcome = harness.outcome(harness.join(member_id, instance="i"))
    assert outcome.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_new_member_that_disappears_is_removed_after_its_timeout() -> None:
    harness = ShardHarness(new_member_join_timeout_ms=15_000)
    [old] = harness.make_stable_group(1)
    vanished = harness.join(version=3)  # waits for the old member, which does not rejoin
    for _ in range(2):
        harness.advance(7_000)
        harness.heartbeat(old, 1)
    harness.advance(1_000)
    assert harness.outcome(vanished).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.outcome(harness.join(old)).generation_id == 2


def test_a_group_left_before_its_first_generation_is_empty() -> None:
    harness = ShardHarness(initial_rebalance_delay_ms=3000)
    ids = harness.request_member_ids(1)
    pending = harness.join(ids[0])
    assert harness.leave(ids[0]).members[0].error_code == OK
    assert harness.outcome(pending).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.state() == GroupState.PREPARING
    harness.advance(3000)
    assert harness.state() == GroupState.EMPTY
    assert harness.shard.groups["g"].generation == 1


def test_the_responses_to_a_leave_precede_its_write() -> None:
    harness = ShardHarness()
    [member_id] = harness.request_member_ids(1)
    leader = harness.join_generation([member_id])
    harness.commits_at_once = False
    harness.sync(member_id, leader.generation_id, {member_id: b"all"})
    assert [type(each) for each in harness.pending_writes] == [WriteRecords]
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
    harness.shard.leave_group("left", RequestContext(5), request, harness.now)
    effects = harness.shard.take_effects()
    assert [type(each) for each in effects] == [GroupResponse, GroupResponse, WriteRecords]


# The maximum size ----------------------------------------------------------------------------


def test_a_full_group_admits_only_its_members() -> None:
    harness = ShardHarness(max_size=2)
    old, _ = harness.make_stable_group(2)
    outcome = harness.outcome(harness.join())
    assert (outcome.error_code, outcome.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert harness.outcome(harness.join("c-2")).error_code == OK
    harness.join(old)
    assert harness.state() == GroupState.PREPARING


def test_a_member_that_joins_beyond_the_limit_is_refused() -> None:
    harness = ShardHarness(max_size=2)
    ids = harness.request_member_ids(3)
    joins = [harness.join(each) for each in ids]
    assert harness.outcome(joins[2]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    harness.poll()
    assert {harness.outcome(pending).error_code for pending in joins[:2]} == {OK}


def test_a_lowered_limit_is_enforced_by_a_rebalance() -> None:
    harness = ShardHarness()
    ids = harness.make_stable_group(3)
    harness.config = harness.config.replace(max_size=2)
    harness.move()
    assert harness.state() == GroupState.PREPARING
    joins = [harness.join(each) for each in ids]
    assert [harness.outcome(pending).error_code for pending in joins] == [
        OK,
        OK,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]


def test_illegal_state_transitions_are_refused() -> None:
    harness = ShardHarness()
    harness.request_member_ids(1)
    group = harness.shard.groups["g"]
    for state in VALID_PREVIOUS_STATES:
        for target, sources in VALID_PREVIOUS_STATES.items():
            group.state = state
            if state in sources:
                group.enter(target, harness.now)
                assert (group.previous_state, group.state) == (state, target)
            else:
                with pytest.raises(AssertionError, match=f"{state} -> {target}"):
                    group.enter(target, harness.now)
