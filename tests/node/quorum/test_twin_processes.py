"""Two processes with one node id and one directory id: the newer one is refused."""

from __future__ import annotations

import pytest

from kraftlog.logstate.voters import ReplicaKey
from kraftlog.node.quorum.twin_processes import MAX_REPLICAS, RETURNS, TwinProcesses

THREE = ReplicaKey(3, b"d" * 16)


def outcomes(fetches: str) -> list[bool]:
    """Whether each fetch is refused, by its connection: a letter."""
    twins = TwinProcesses()
    connections = {letter: object() for letter in fetches}
    return [twins.refuses(THREE, connections[letter]) for letter in fetches]


@pytest.mark.parametrize(
    "fetches", ["aaaa", "aabb", "abcdef", "aab" + "a" + "bbbb", "ab" * RETURNS]
)
def test_one_process_that_connects_again_is_not_refused(fetches: str) -> None:
    """Even if a request that it had sent before arrives late."""
    assert not any(outcomes(fetches))


def test_of_two_processes_that_alternate_the_newer_is_refused() -> None:
    alternating = "ab" * RETURNS + "abab"
    assert outcomes(alternating) == [False] * (2 * RETURNS + 1) + [True, False, True]


def test_a_process_that_takes_the_place_of_both_is_not_refused() -> None:
    alternating = "ab" * RETURNS + "ab"
    assert outcomes(alternating + "cccc")[-4:] == [False] * 4


def test_other_replicas_are_not_concerned() -> None:
    twins = TwinProcesses()
    first, second = object(), object()
    for _ in range(RETURNS + 1):
        twins.refuses(THREE, first)
        twins.refuses(THREE, second)
    assert twins.refuses(THREE, second)
    assert not twins.refuses(ReplicaKey(3, b"e" * 16), second)


def test_only_so_many_replicas_are_remembered() -> None:
    twins = TwinProcesses()
    for number in range(2 * MAX_REPLICAS):
        twins.refuses(ReplicaKey(number, b"d" * 16), object())
    assert len(twins._by_replica) == MAX_REPLICAS
