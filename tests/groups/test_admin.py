"""ListGroups, DescribeGroups, DeleteGroups."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.groups.states import State
from tests.groups.desk import OK, RANGE, Desk, codes

T0 = ("t", 0)


def results(response: object) -> dict[str, int]:
    return {each.group_id: each.error_code for each in response.results}  # type: ignore[attr-defined]  # an answer


# ListGroups ----------------------------------------------------------------------------------


def test_groups_are_listed_by_state_and_type_in_any_case_of_letters() -> None:
    desk = Desk()
    desk.stable(1, group="stable")
    desk.enter(1, group="new")
    desk.commit_offsets({T0: 1}, group="simple")

    def listed(states: list[str], types: list[str]) -> set[str]:
        return {each.group_id for each in desk.shard.list_groups(states, types)}

    assert listed([], []) == {"stable", "new", "simple"}
    assert listed(["sTable"], ["CLASSIC"]) == {"stable"}
    assert listed(["Empty", "Dead"], []) == {"new", "simple"}
    assert listed([], ["consumer"]) == listed(["nonsense"], []) == set()
    [stable] = desk.shard.list_groups(["stable"], [])
    assert (stable.protocol_type, stable.group_state, stable.group_type) == (
        "consumer",
        "Stable",
        "classic",
    )


# DescribeGroups ------------------------------------------------------------------------------


def test_what_members_offer_is_told_of_a_stable_group_only() -> None:
    desk = Desk()
    ids = desk.stable(2)
    told = desk.describe()
    assert (told.error_code, told.group_state, told.protocol_type, told.protocol_data) == (
        OK,
        "Stable",
        "consumer",
        "range",
    )
    assert [
        (each.member_id, each.client_id, each.client_host, each.member_metadata)
        for each in told.members
    ] == [(member_id, "c", "/127.0.0.1", RANGE[0][1]) for member_id in ids]
    assert [each.member_assignment for each in told.members] == [b"c-1", b"c-2"]
    desk.join(ids[0])
    told = desk.describe()
    assert (told.group_state, told.protocol_data) == ("PreparingRebalance", "")
    assert [each.member_metadata for each in told.members] == [b"", b""]


def test_a_missing_group_is_an_error_since_version_6_and_dead_before() -> None:
    desk = Desk()
    told = desk.describe("nowhere")
    assert (told.error_code, told.error_message, told.group_state) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group nowhere not found.",
        "Dead",
    )
    told = desk.describe("nowhere", version=5)
    assert (told.error_code, told.error_message, told.group_state) == (OK, None, "Dead")


# DeleteGroups --------------------------------------------------------------------------------


def test_empty_groups_go_with_their_offsets() -> None:
    desk = Desk()
    [member_id] = desk.stable(1)
    desk.commit_offsets({T0: 1}, member_id, 1)
    assert results(desk.told(desk.delete_groups("g", "nowhere"))) == {
        "g": ErrorCode.NON_EMPTY_GROUP,
        "nowhere": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    desk.leave(member_id)
    before = len(desk.log)
    assert results(desk.told(desk.delete_groups("g"))) == {"g": OK}
    assert [(key[:2], value) for _, key, value in desk.log[before:]] == [
        (b"\x00\x01", None),
        (b"\x00\x02", None),
    ]
    assert desk.state() == "none"
    assert desk.reloaded().groups == {}


def test_while_its_end_is_written_a_group_is_dead() -> None:
    desk = Desk()
    [member_id] = desk.stable(1)
    desk.leave(member_id)
    desk.commit_offsets({T0: 1})
    desk.prompt = False
    slot = desk.delete_groups("g")
    away = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert desk.state() == State.DEAD
    assert desk.told(desk.join()).error_code == away
    assert desk.told(desk.sync(member_id, 1)).error_code == away
    assert desk.heartbeat(member_id, 1) == away
    assert desk.leave(member_id).error_code == away
    assert codes(desk.told(desk.commit_offsets({T0: 2}))) == [away]
    assert desk.offsets() == {T0: 1}
    assert desk.told(desk.delete_offsets(T0)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert results(desk.told(desk.delete_groups("g"))) == {"g": ErrorCode.GROUP_ID_NOT_FOUND}
    desk.commit()
    assert results(desk.told(slot)) == {"g": OK}
    assert desk.offsets() == {}


def test_a_group_whose_end_can_not_be_written_is_as_it_was() -> None:
    desk = Desk()
    desk.commit_offsets({T0: 1})
    since = desk.shard.groups["g"].state_since
    desk.prompt = False
    desk.advance(1000)
    slot = desk.delete_groups("g")
    desk.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert results(desk.told(slot)) == {"g": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert (desk.state(), desk.shard.groups["g"].state_since) == (State.EMPTY, since)
    assert desk.offsets() == {T0: 1}


def test_offsets_under_way_go_with_the_group() -> None:
    desk = Desk(prompt=False)
    desk.commit_offsets({T0: 1})
    desk.delete_groups("g", "g")
    desk.commit()
    assert (desk.state(), desk.offsets()) == ("none", {})
    assert desk.reloaded().durable.offsets.by_group == {}


def test_a_name_may_be_used_again() -> None:
    desk = Desk()
    desk.commit_offsets({T0: 1})
    desk.delete_groups("g")
    desk.stable(1)
    assert (desk.state(), desk.offsets(T0)) == (State.STABLE, {T0: -1})
