"""V10: the plans that `kraftlog reassign --balance` proposes."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from kraftlog.cli.balance import balanced

NO_RACKS = dict.fromkeys((1, 2, 3))


def counts(assignment: dict[tuple[str, int], tuple[int, ...]]) -> tuple[list[int], list[int]]:
    """Replicas and preferred leaders per broker, ascending."""
    replicas = Counter(broker for each in assignment.values() for broker in each)
    leaders = Counter(dict.fromkeys(replicas, 0))
    leaders.update(each[0] for each in assignment.values())
    return sorted(replicas.values()), sorted(leaders.values())


def test_v10_balanced_partitions_do_not_move() -> None:
    assignment = {("a", 0): (1, 2), ("a", 1): (2, 3), ("a", 2): (3, 1)}
    assert balanced(assignment, NO_RACKS) == {}
    assert balanced({}, NO_RACKS) == {}


def test_v10_replicas_move_to_the_emptiest_broker() -> None:
    changes = balanced({("a", index): (1,) for index in range(4)}, NO_RACKS)
    assert sorted(changes.values()) == [(2,), (3,)]


def test_v10_brokers_that_are_not_listed_lose_all_replicas() -> None:
    changes = balanced({("a", 0): (1, 3), ("a", 1): (3, 2)}, dict.fromkeys((1, 2)))
    assert {name: set(each) for name, each in changes.items()} == {
        ("a", 0): {1, 2},
        ("a", 1): {1, 2},
    }
    assert sorted(each[0] for each in changes.values()) == [1, 2]


def test_v10_leaders_are_spread_without_moving_replicas() -> None:
    assignment = {("a", index): (1, 2, 3) for index in range(6)}
    changed = {**assignment, **balanced(assignment, NO_RACKS)}
    assert counts(changed) == ([6, 6, 6], [2, 2, 2])


def test_v10_leadership_moves_by_way_of_another_broker() -> None:
    """Broker 1 leads too many but shares no partition with 3: 2 takes from 1, and 3 from 2."""
    assignment = {("a", 0): (1, 2), ("a", 1): (1, 2), ("a", 2): (2, 3), ("b", 0): (3,)}
    assignment |= {("a", 3): (1, 2), ("a", 4): (2, 3)}
    racks = {1: "x", 2: "y", 3: "x"}
    changed = {**assignment, **balanced(assignment, racks)}
    assert counts(changed)[1] == [2, 2, 2]


def test_v10_replicas_of_a_partition_stay_in_different_racks() -> None:
    assignment = {("a", index): (1, 3) for index in range(4)}
    racks = {1: "x", 2: "x", 3: "y", 4: "y"}
    changed = {**assignment, **balanced(assignment, racks)}
    assert counts(changed)[0] == [2, 2, 2, 2]
    assert all(len({racks[each] for each in replicas}) == 2 for replicas in changed.values())


def test_v10_too_few_brokers_are_refused() -> None:
    with pytest.raises(ValueError, match="2 replicas need 2 brokers; there are 1"):
        balanced({("a", 0): (1, 2)}, {1: None})


@pytest.mark.parametrize("seed", range(20))
def test_v10_any_assignment_is_balanced_within_one(seed: int) -> None:
    rng = Random(seed)
    brokers = range(rng.randint(3, 7))
    assignment = {
        (topic, index): tuple(rng.sample(brokers, rng.randint(1, 3)))
        for topic in "abc"
        for index in range(rng.randint(1, 30))
    }
    changed = {**assignment, **balanced(assignment, dict.fromkeys(brokers))}
    assert all(len(changed[name]) == len({*changed[name]}) for name in assignment)
    assert all(len(changed[name]) == len(each) for name, each in assignment.items())
    replicas = counts(changed)[0]
    assert replicas[-1] - replicas[0] <= 1
    assert balanced(changed, dict.fromkeys(brokers)) == {}
