"""JoinGroup and rebalances: who is let in, when a generation is complete, who leads."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.groups.messages import Answer, Asker, WriteRecords
from kraftlog.groups.states import MAY_FOLLOW, State
from kraftlog.wire.messages.join_group import JoinGroupResponse
from kraftlog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.groups.desk import OK, RANGE, REBALANCE_MS, SESSION_MS, Desk, subscription

ROUND_ROBIN = ("roundrobin", subscription("t"))


def test_a_new_member_is_given_an_id_and_the_new_group_is_written() -> None:
    desk = Desk(prompt=False)
    slot = desk.join(client="me")
    assert desk.told(slot) == JoinGroupResponse(
        error_code=ErrorCode.MEMBER_ID_REQUIRED,
        protocol_name=None,
        leader="",
        member_id="me-1",
        members=(),
    )
    [write] = desk.under_way
    assert write.records[0][0] == b"\x00\x02\x00\x01g"
    assert desk.state() == State.EMPTY


def test_before_version_4_a_new_member_joins_at_once() -> None:
    desk = Desk()
    slot = desk.join(version=3)
    assert slot not in desk.answers
    desk.poll()
    told = desk.told(slot)
    assert (told.error_code, told.generation_id, told.leader) == (OK, 1, "c-1")
    assert [(each.member_id, each.metadata) for each in told.members] == [("c-1", RANGE[0][1])]


def test_version_0_has_no_rebalance_timeout_and_takes_that_of_the_session() -> None:
    desk = Desk()
    desk.join(version=0)
    assert desk.shard.groups["g"].rebalance_timeout_ms == SESSION_MS


def test_who_starts_together_is_in_one_generation_and_the_first_leads() -> None:
    desk = Desk()
    leader = desk.generation(desk.enter(3))
    assert leader.leader == "c-1"
    assert [each.member_id for each in leader.members] == ["c-1", "c-2", "c-3"]
    assert (leader.protocol_type, leader.protocol_name) == ("consumer", "range")
    assert desk.state() == State.COMPLETING


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_what_is_refused_leaves_no_group(words: dict[str, object], code: int) -> None:
    desk = Desk()
    told = desk.told(desk.join(**words))  # type: ignore[arg-type]  # each has the type it needs
    assert told.error_code == code
    assert told.member_id == words.get("member_id", "")
    assert desk.shard.groups == {}
    assert desk.log == []


def test_others_must_fit_to_those_who_are_there() -> None:
    desk = Desk()
    desk.stable(2)
    for words in ({"protocol_type": "connect"}, {"protocols": (ROUND_ROBIN,)}):
        told = desk.told(desk.join(**words))
        assert told.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert desk.state() == State.STABLE


def test_a_protocol_is_chosen_that_all_support_and_most_like_best() -> None:
    desk = Desk()
    both = (ROUND_ROBIN, *RANGE)
    slots = [desk.join(version=3, protocols=p) for p in ((*RANGE, ROUND_ROBIN), both, both)]
    desk.poll()
    assert {desk.told(slot).protocol_name for slot in slots} == {"roundrobin"}
    slots = [desk.join("c-1"), desk.join("c-2", protocols=both), desk.join("c-3", protocols=both)]
    assert {desk.told(slot).protocol_name for slot in slots} == {"range"}


def test_of_a_protocol_named_twice_the_first_counts() -> None:
    desk = Desk()
    slot = desk.join(version=3, protocols=(*RANGE, ("range", b"again")))
    desk.poll()
    assert desk.told(slot).members[0].metadata == RANGE[0][1]
    assert desk.leave("c-1").members[0].error_code == OK
    assert desk.shard.groups["g"].support == {}


# The initial delay ---------------------------------------------------------------------------


def test_the_first_members_are_waited_for() -> None:
    desk = Desk(initial_rebalance_delay_ms=3000)
    first = desk.join(version=3)
    desk.advance(2999)
    assert first not in desk.answers
    desk.advance(1)
    assert desk.told(first).error_code == OK


def test_each_that_comes_extends_the_delay_up_to_the_rebalance_timeout() -> None:
    desk = Desk(initial_rebalance_delay_ms=3000)
    first = desk.join(version=3, rebalance_ms=7000)
    desk.advance(2000)
    desk.join(version=3, rebalance_ms=7000)
    desk.advance(3999)
    assert first not in desk.answers
    desk.join(version=3, rebalance_ms=7000)
    desk.advance(1000)
    assert first not in desk.answers
    desk.advance(1)
    assert len(desk.told(first).members) == 3
    assert desk.ms == 7000


# Rebalances ----------------------------------------------------------------------------------


def test_another_member_makes_all_join_again() -> None:
    desk = Desk()
    [old] = desk.stable(1)
    [new] = desk.enter(1)
    late = desk.join(new)
    assert desk.state() == State.PREPARING
    assert late not in desk.answers
    assert desk.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    again = desk.join(old)
    assert desk.told(again).generation_id == desk.told(late).generation_id == 2
    assert [each.member_id for each in desk.told(again).members] == [old, new]
    assert desk.told(late).members == ()


def test_who_does_not_join_again_in_time_is_out() -> None:
    desk = Desk()
    old, other = desk.stable(2)
    [new] = desk.enter(1)
    slots = [desk.join(new), desk.join(other)]
    for _ in range(REBALANCE_MS // 5000 - 1):
        desk.advance(5000)
        assert desk.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    desk.advance(5000)
    assert {desk.told(slot).leader for slot in slots} == {other}
    assert desk.heartbeat(old, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_was_given_an_id_is_waited_for_until_its_session_is_over() -> None:
    desk = Desk()
    [old] = desk.stable(1)
    desk.enter(1)
    again = desk.join(old)  # the leader asks for a rebalance
    assert again not in desk.answers
    desk.advance(SESSION_MS)
    assert desk.told(again).generation_id == 2


def test_a_follower_that_has_not_changed_is_told_the_generation_there_is() -> None:
    desk = Desk()
    _, follower = desk.stable(2)
    told = desk.told(desk.join(follower))
    assert (told.generation_id, told.members, told.leader) == (1, (), "c-1")
    assert desk.state() == State.STABLE


def test_changed_followers_and_leaders_cause_a_rebalance() -> None:
    for at, protocols in ((1, (("range", subscription("u")),)), (0, RANGE)):
        desk = Desk()
        ids = desk.stable(2)
        desk.join(ids[at], protocols=protocols)
        assert desk.state() == State.PREPARING


def test_the_leader_is_told_what_members_say_now() -> None:
    desk = Desk()
    leader, follower = desk.stable(2)
    changed = (("range", subscription("u")),)
    desk.join(follower, protocols=changed)
    told = desk.told(desk.join(leader))
    assert {each.member_id: each.metadata for each in told.members} == {
        leader: RANGE[0][1],
        follower: changed[0][1],
    }


def test_while_assignments_are_made_who_asks_again_is_told_again() -> None:
    desk = Desk()
    ids = desk.enter(2)
    leader = desk.generation(ids)
    assert desk.told(desk.join(ids[0])) == leader
    assert desk.told(desk.join(ids[1])).members == ()
    desk.join(ids[1], protocols=(("range", subscription("u")),))
    assert desk.state() == State.PREPARING


def test_a_later_request_of_a_member_takes_the_place_of_the_one_that_waits() -> None:
    desk = Desk()
    old, _ = desk.stable(2)
    first = desk.join(old)
    second = desk.join(old)
    assert desk.told(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert second not in desk.answers


def test_a_member_that_is_told_to_be_static_can_not_have_been_given_an_id() -> None:
    desk = Desk()
    [member_id] = desk.enter(1)
    told = desk.told(desk.join(member_id, instance="i"))
    assert told.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_who_joined_and_went_away_is_found_out_at_last() -> None:
    desk = Desk(new_member_join_timeout_ms=15_000)
    [old] = desk.stable(1)
    gone = desk.join(version=3)  # waits for the old one, which does not come
    for _ in range(2):
        desk.advance(7_000)
        desk.heartbeat(old, 1)
    desk.advance(1_000)
    assert desk.told(gone).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.told(desk.join(old)).generation_id == 2


def test_a_group_left_before_its_first_generation_is_empty() -> None:
    desk = Desk(initial_rebalance_delay_ms=3000)
    ids = desk.enter(1)
    slot = desk.join(ids[0])
    assert desk.leave(ids[0]).members[0].error_code == OK
    assert desk.told(slot).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.state() == State.PREPARING
    desk.advance(3000)
    assert desk.state() == State.EMPTY
    assert desk.shard.groups["g"].generation == 1


def test_the_answer_comes_before_what_is_written_for_it() -> None:
    desk = Desk()
    [member_id] = desk.enter(1)
    leader = desk.generation([member_id])
    desk.prompt = False
    desk.sync(member_id, leader.generation_id, {member_id: b"all"})
    assert [type(each) for each in desk.under_way] == [WriteRecords]
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
    desk.shard.leave_group("left", Asker(5), request, desk.now)
    effects = desk.shard.take_effects()
    assert [type(each) for each in effects] == [Answer, Answer, WriteRecords]


# How many ------------------------------------------------------------------------------------


def test_a_full_group_takes_nobody_else_but_its_members() -> None:
    desk = Desk(max_size=2)
    old, _ = desk.stable(2)
    told = desk.told(desk.join())
    assert (told.error_code, told.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert desk.told(desk.join("c-2")).error_code == OK
    desk.join(old)
    assert desk.state() == State.PREPARING


def test_the_last_to_join_finds_no_room() -> None:
    desk = Desk(max_size=2)
    ids = desk.enter(3)
    slots = [desk.join(each) for each in ids]
    assert desk.told(slots[2]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    desk.poll()
    assert {desk.told(slot).error_code for slot in slots[:2]} == {OK}


def test_a_limit_that_has_become_smaller_is_kept_by_a_rebalance() -> None:
    desk = Desk()
    ids = desk.stable(3)
    desk.config = desk.config.replace(max_size=2)
    desk.move()
    assert desk.state() == State.PREPARING
    slots = [desk.join(each) for each in ids]
    assert [desk.told(slot).error_code for slot in slots] == [
        OK,
        OK,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]


def test_every_step_not_in_the_table_is_refused() -> None:
    desk = Desk()
    desk.enter(1)
    group = desk.shard.groups["g"]
    for state in MAY_FOLLOW:
        for target, sources in MAY_FOLLOW.items():
            group.state = state
            if state in sources:
                group.enter(target, desk.now)
                assert (group.previous_state, group.state) == (state, target)
            else:
                with pytest.raises(AssertionError, match=f"{state} -> {target}"):
                    group.enter(target, desk.now)
