"""Two processes with one node id and one directory id: the newer one is refused."""

from __future__ import annotations

import pytest

from kraftlog.logstate.voters import ReplicaKey
from kraftlog.node.pending_response import PendingResponse
from kraftlog.node.quorum.twin_processes import ALTERNATIONS, MAX_REPLICAS, TwinProcesses

THREE = ReplicaKey(3, b"d" * 16)


def outcomes(fetches: str) -> list[bool]:
    """Whether each fetch is refused, by its connection: a letter; a dot answers all before."""
    twins = TwinProcesses()
    connections = {letter: object() for letter in fetches}
    slots: list[PendingResponse] = []
    found = []
    for letter in fetches:
        if letter == ".":
            for slot in slots:
                slot.pieces = []
            continue
        slots.append(PendingResponse(connections[letter]))
        found.append(twins.refuses(THREE, slots[-1]))
    return found


@pytest.mark.parametrize(
    "fetches",
    [
        "a.a.a.a.a.a.a",
        "a.a.ab.b.b.b",
        "abcdef",
        "a.b." * 10,
        "ab.b.b." * 10,
        "ab" * (ALTERNATIONS // 2),
    ],
)
def test_one_process_with_several_connections_is_not_refused(fetches: str) -> None:
    """It may look for the leader on two, and its requests may be answered late."""
    assert not any(outcomes(fetches))


def test_of_two_processes_that_alternate_the_newer_is_refused() -> None:
    found = outcomes("ab" * ALTERNATIONS + "a.b.b.a.b")
    assert found[: ALTERNATIONS + 1] == [False] * (ALTERNATIONS + 1)
    assert found[-5:] == [False, True, True, False, True]


@pytest.mark.parametrize("fetches", ["ab.ab.", "ab.aab.b", "ab.a.a.ba."])
def test_responses_in_between_do_not_hide_two_processes(fetches: str) -> None:
    """New records complete the fetches of both; one may fetch twice before the other."""
    assert any(outcomes(fetches * ALTERNATIONS))


def test_a_process_that_takes_the_place_of_both_is_not_refused() -> None:
    assert outcomes("ab" * ALTERNATIONS + "c.c.c.c")[-4:] == [False] * 4


def test_other_replicas_are_not_concerned() -> None:
    twins = TwinProcesses()
    first, second = object(), object()
    for _ in range(ALTERNATIONS):
        twins.refuses(THREE, PendingResponse(first))
        twins.refuses(THREE, PendingResponse(second))
    assert twins.refuses(THREE, PendingResponse(second))
    assert not twins.refuses(ReplicaKey(3, b"e" * 16), PendingResponse(second))


def test_the_number_of_remembered_replicas_is_limited() -> None:
    twins = TwinProcesses()
    for number in range(2 * MAX_REPLICAS):
        twins.refuses(ReplicaKey(number, b"d" * 16), PendingResponse(object()))
    assert len(twins._by_replica) == MAX_REPLICAS
