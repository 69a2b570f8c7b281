"""V4: replicas are spread over live brokers and racks."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kraftlog.controller.decision import Refusal
from kraftlog.controller.placement import place_in_steps, random_below, shuffle
from kraftlog.errors import ErrorCode
from kraftlog.metadata.values import BrokerImage
from kraftlog.steps import result_of
from tests.controller.cluster import numbered_id


def broker(number: int, rack: str | None = None, **state: Any) -> BrokerImage:
    return BrokerImage(number, 0, numbered_id(number), (), rack=rack, **{"fenced": False, **state})


def placement_of(
    brokers: list[BrokerImage], partitions: int, replicas: int, seed: int = 0
) -> list[tuple[int, ...]]:
    placement = result_of(place_in_steps(brokers, partitions, replicas, Random(seed)))
    assert not isinstance(placement, Refusal)
    return placement


def refusal_of(brokers: list[BrokerImage], replicas: int) -> Refusal:
    refusal = result_of(place_in_steps(brokers, 1, replicas, Random(0)))
    assert isinstance(refusal, Refusal)
    assert refusal.code == ErrorCode.INVALID_REPLICATION_FACTOR
    return refusal


RACKS = st.sampled_from(["a", "b", "c", None])
CLUSTERS = st.lists(st.tuples(RACKS, st.booleans()), min_size=1, max_size=7)


@given(CLUSTERS, st.integers(1, 20), st.integers(1, 7), st.integers(0, 99))
def test_v4_replicas_differ_and_an_unfenced_one_comes_first(
    cluster: list[tuple[str | None, bool]], partitions: int, replicas: int, seed: int
) -> None:
    brokers = [broker(n, rack, fenced=fenced) for n, (rack, fenced) in enumerate(cluster)]
    unfenced = {b.id for b in brokers if not b.fenced}
    if not unfenced or replicas > len(brokers):
        refusal_of(brokers, replicas)
        return
    placement = placement_of(brokers, partitions, replicas, seed)
    assert placement == placement_of(brokers, partitions, replicas, seed)
    for partition in placement:
        assert len(set(partition)) == replicas
        assert partition[0] in unfenced


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 99))
def test_v4_racks_are_used_evenly(racks: int, per_rack: int, seed: int) -> None:
    brokers = [broker(n, f"rack {n % racks}") for n in range(racks * per_rack)]
    for partition in placement_of(brokers, 7, min(racks, 3), seed):
        assert len({n % racks for n in partition}) == len(partition)


@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 99))
def test_v4_leaders_are_spread(brokers: int, rounds: int, seed: int) -> None:
    all_brokers = [broker(n) for n in range(brokers)]
    leaders = [p[0] for p in placement_of(all_brokers, brokers * rounds, 1, seed)]
    assert all(leaders.count(n) == rounds for n in range(brokers))


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 99))
def test_v4_racks_lead_equally_often(racks: int, per_rack: int, seed: int) -> None:
    brokers = [broker(n, f"rack {n % racks}") for n in range(racks * per_rack)]
    leading = [p[0] % racks for p in placement_of(brokers, len(brokers), 1, seed)]
    assert all(leading.count(rack) == per_rack for rack in range(racks))


def test_v4_fenced_brokers_are_the_last_resort() -> None:
    brokers = [broker(1), broker(2, fenced=True), broker(3)]
    assert all(2 not in partition for partition in placement_of(brokers, 6, 2))
    assert all(partition[-1] == 2 for partition in placement_of(brokers, 6, 3))


def test_v4_stopping_and_cordoned_brokers_get_no_replicas() -> None:
    brokers = [broker(1), broker(2, in_controlled_shutdown=True)]
    assert placement_of(brokers, 3, 1) == [(1,)] * 3
    first, second = numbered_id(1), numbered_id(2)
    cordoned = broker(2).replace(directories=(first, second), cordoned=(first, second))
    assert placement_of([broker(1), cordoned], 3, 1) == [(1,)] * 3
    half_cordoned = cordoned.replace(cordoned=(first,))
    assert {p[0] for p in placement_of([broker(1), half_cordoned], 3, 1)} == {1, 2}
    assert "only 1 broker(s)" in str(refusal_of(brokers, 2).message)


def test_v4_impossible_placements_are_refused() -> None:
    """C217, C219."""
    assert "must be positive" in str(refusal_of([broker(1)], 0).message)
    assert "currently fenced" in str(refusal_of([broker(1, fenced=True)], 1).message)
    assert "currently fenced" in str(refusal_of([], 1).message)


@given(st.integers(1, 1000), st.integers(0, 99))
def test_random_numbers_are_below_their_bound(end: int, seed: int) -> None:
    assert 0 <= random_below(Random(seed), end) < end


@given(st.lists(st.integers()), st.integers(0, 99))
def test_a_shuffle_keeps_all_items(items: list[int], seed: int) -> None:
    shuffled = list(items)
    shuffle(shuffled, Random(seed))
    assert sorted(shuffled) == sorted(items)
