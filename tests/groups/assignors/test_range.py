"""Rules of `range`: contiguous ranges, in the order of instance ids and then of member ids."""

from __future__ import annotations

from kraftlog.groups.assignors.interface import MemberSubscription
from kraftlog.groups.assignors.range_assignor import by_utf16
from tests.groups.assignors.at_once import assign
from tests.groups.assignors.test_uniform import T1, T2, by_name, member, subscribed


def test_the_first_members_get_the_larger_ranges() -> None:
    members = by_name(member("c", T1), member("a", T1), member("b", T1))
    assert assign("range", members, subscribed(t1=5)) == {
        "a": {T1: {0, 1}},
        "b": {T1: {2, 3}},
        "c": {T1: {4}},
    }


def test_topics_of_equal_size_are_copartitioned() -> None:
    members = by_name(member("a", T1, T2), member("b", T1, T2))
    result = assign("range", members, subscribed(t1=3, t2=3))
    assert result == {"a": {T1: {0, 1}, T2: {0, 1}}, "b": {T1: {2}, T2: {2}}}


def test_members_beyond_the_partitions_get_nothing() -> None:
    members = by_name(member("a", T1), member("b", T1), member("c", T1))
    assert assign("range", members, subscribed(t1=2)) == {"a": {T1: {0}}, "b": {T1: {1}}, "c": {}}


def test_ranges_are_among_the_subscribers_of_each_topic() -> None:
    members = by_name(member("a", T1), member("b", T1, T2), member("c", T2))
    assert assign("range", members, subscribed(False, t1=2, t2=3)) == {
        "a": {T1: {0}},
        "b": {T1: {1}, T2: {0, 1}},
        "c": {T2: {2}},
    }


def test_what_members_own_makes_no_difference() -> None:
    members = by_name(member("a", T1, t1={1}), member("b", T1, t1={0}))
    assert assign("range", members, subscribed(t1=2)) == {"a": {T1: {0}}, "b": {T1: {1}}}


def test_static_members_come_first_by_instance_id() -> None:
    members = by_name(
        member("a", T1),
        MemberSubscription("z", frozenset({T1}), {}, instance_id="1"),
        MemberSubscription("b", frozenset({T1}), {}, instance_id="2"),
    )
    result = assign("range", members, subscribed(t1=3))
    assert result == {"z": {T1: {0}}, "b": {T1: {1}}, "a": {T1: {2}}}


def test_a_static_member_keeps_its_range_under_a_new_member_id() -> None:
    for name in ("a", "z"):
        members = by_name(
            member("m", T1), MemberSubscription(name, frozenset({T1}), {}, instance_id="i")
        )
        assert assign("range", members, subscribed(t1=2))[name] == {T1: {0}}


def test_names_compare_by_their_utf16_units() -> None:
    """U+FF5E is above the surrogates, with which Java begins U+1F600."""
    names = ["\uff5e", "\U0001f600", "a", "ä"]
    assert sorted(names, key=by_utf16) == ["a", "ä", "\U0001f600", "\uff5e"]
