"""Rules of `uniform`: sizes, stickiness, and what happens at the edges."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.groups.assignors.builtin import BUILTIN_ASSIGNORS
from kraftlog.groups.assignors.interface import (
    AssignorError,
    MemberSubscription,
    SubscribedTopics,
)
from kraftlog.types import Uuid
from tests.groups.assignors.at_once import assign
from tests.groups.assignors.random_groups import RandomGroup, Round

T1, T2, T3 = (bytes([number]) * 16 for number in (1, 2, 3))


def subscribed(homogeneous: bool = True, **counts: int) -> SubscribedTopics:
    names = {"t1": T1, "t2": T2, "t3": T3}
    return SubscribedTopics(
        {names[name]: count for name, count in counts.items()}, {}, is_homogeneous=homogeneous
    )


def member(name: str, *topics: Uuid, **owned: set[int]) -> MemberSubscription:
    names = {"t1": T1, "t2": T2, "t3": T3}
    return MemberSubscription(
        name,
        frozenset(topics),
        {names[topic]: frozenset(partitions) for topic, partitions in owned.items()},
    )


def by_name(*members: MemberSubscription) -> dict[str, MemberSubscription]:
    return {one.member_id: one for one in members}


def sizes(one: Round) -> list[int]:
    return [sum(map(len, one.result.get(name, {}).values())) for name in one.members]


def test_a_group_without_members_gets_nothing() -> None:
    assert assign("uniform", {}, subscribed(t1=3)) == {}


@pytest.mark.parametrize("homogeneous", [True, False], ids=["homogeneous", "heterogeneous"])
def test_members_without_topics_get_nothing(homogeneous: bool) -> None:
    members = by_name(member("a", t1={0}), member("b"))
    assert assign("uniform", members, subscribed(homogeneous, t1=1)) == {"a": {}, "b": {}}


@pytest.mark.parametrize("homogeneous", [True, False], ids=["homogeneous", "heterogeneous"])
@pytest.mark.parametrize("name", BUILTIN_ASSIGNORS)
def test_an_unknown_topic_is_an_error(name: str, homogeneous: bool) -> None:
    members = by_name(member("a", T1), member("b", T1, T2))
    with pytest.raises(AssignorError, match=T1.hex()):
        assign(name, members, subscribed(homogeneous, t2=1))


def test_a_balanced_assignment_stays_as_it_is() -> None:
    members = by_name(member("a", T1, t1={0, 3}), member("b", T1, t1={1, 2}))
    result = assign("uniform", members, subscribed(t1=4))
    assert result == {"a": {T1: {0, 3}}, "b": {T1: {1, 2}}}
    assert result["a"][T1] is members["a"].owned[T1]


def test_a_joining_member_takes_only_what_exceeds_the_quota() -> None:
    members = by_name(member("a", T1, t1={0, 1, 2}), member("b", T1, t1={3, 4, 5}), member("c", T1))
    result = assign("uniform", members, subscribed(t1=6))
    assert result == {"a": {T1: {0, 1}}, "b": {T1: {3, 4}}, "c": {T1: {2, 5}}}


def test_an_extra_partition_stays_with_the_member_that_owns_it() -> None:
    for owner, other in (("a", "b"), ("b", "a")):
        members = by_name(member(owner, T1, t1={0, 2}), member(other, T1, t1={1}))
        result = assign("uniform", members, subscribed(t1=3))
        assert result == {owner: {T1: {0, 2}}, other: {T1: {1}}}


def test_partitions_of_topics_that_are_unsubscribed_are_given_back() -> None:
    members = by_name(member("a", T1, t1={0}, t2={0, 1}), member("b", T1, t1={1}))
    for homogeneous in (True, False):
        result = assign("uniform", members, subscribed(homogeneous, t1=2))
        assert result == {"a": {T1: {0}}, "b": {T1: {1}}}


def test_load_moves_to_members_that_subscribe_to_less() -> None:
    members = by_name(
        member("a", T1, T2, t1={0, 1}, t2={0, 1}), member("b", T1), member("c", T2, t2={2})
    )
    result = assign("uniform", members, subscribed(False, t1=2, t2=3))
    assert sorted(sum(map(len, topics.values())) for topics in result.values()) == [1, 2, 2]
    assert result["b"] == {T1: {1}}


@given(st.integers(0, 10**6), st.booleans())
def test_each_partition_has_one_owner_among_the_subscribers(seed: int, homogeneous: bool) -> None:
    for one in RandomGroup(Random(seed), homogeneous, "uniform").run(4):
        owners: dict[tuple[Uuid, int], str] = {}
        for name, assignment in one.result.items():
            assert set(assignment) <= one.members[name].topic_ids
            for topic, partitions in assignment.items():
                assert partitions
                for partition in partitions:
                    assert owners.setdefault((topic, partition), name) == name
        wanted = frozenset().union(*[each.topic_ids for each in one.members.values()])
        assert set(owners) == {
            (topic, partition)
            for topic in wanted
            for partition in range(one.topics.partition_counts[topic])
        }


@given(st.integers(0, 10**6))
def test_sizes_differ_by_one_if_all_subscribe_to_the_same(seed: int) -> None:
    for one in RandomGroup(Random(seed), homogeneous=True, assignor="uniform").run(3):
        if one.assignor == "uniform":
            assert max(sizes(one)) - min(sizes(one)) <= 1


@pytest.mark.parametrize("homogeneous", [True, False], ids=["homogeneous", "heterogeneous"])
@pytest.mark.parametrize("name", BUILTIN_ASSIGNORS)
def test_no_step_of_a_large_group_costs_more_than_a_few_ms(name: str, homogeneous: bool) -> None:
    """1,000 members and 10,000 partitions; a unit of the cost is about a microsecond."""
    rng = Random(1)
    topics = SubscribedTopics(
        {rng.randbytes(16): 100 for _ in range(100)}, {}, is_homogeneous=homogeneous
    )
    every = frozenset(topics.partition_counts)
    members = by_name(*[MemberSubscription(f"member-{n}", every, {}) for n in range(1000)])
    costs = list(BUILTIN_ASSIGNORS[name](members, topics))
    assert max(costs) <= 1_500
    assert len(costs) > 20


IN_ORDER = """
from random import Random
from tests.groups.assignors.random_groups import RandomGroup
for homogeneous in (True, False):
    for name in ("uniform", "range"):
        for one in [RandomGroup(Random(seed), homogeneous, name).run(1)[0] for seed in range(20)]:
            for member, topics in one.result.items():
                print(member, [(topic.hex(), sorted(each)) for topic, each in topics.items()])
"""


def test_members_and_topics_have_the_same_order_in_each_process() -> None:
    """Records are written in this order, and runs of the simulator must be reproducible."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", IN_ORDER],
            capture_output=True,
            check=True,
            env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
