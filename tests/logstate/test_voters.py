"""The voter sets of a log: since which offset the members are in force, and which were removed."""

from __future__ import annotations

import pytest

from kraftlog.logstate.voters import (
    MAX_REMOVED,
    ReplicaKey,
    Voter,
    VoterHistory,
    VoterSet,
    voters_by_id,
)

ONE, TWO = voters_by_id(1), voters_by_id(1, 2)
TO_THREE = TWO.replace(targets=(3,))


@pytest.mark.parametrize(
    ("base", "entries", "since"),
    [
        (ONE, (), -1),
        (ONE, ((0, ONE),), -1),
        (ONE, ((0, ONE), (5, TWO)), 5),
        (ONE, ((0, ONE), (5, TWO), (9, TO_THREE)), 5),
        (TWO, ((9, TO_THREE),), -1),
        (ONE, ((9, TO_THREE),), 9),
    ],
)
def test_r7_members_are_in_force_since_the_record_that_changed_them(
    base: VoterSet, entries: tuple[tuple[int, VoterSet], ...], since: int
) -> None:
    """Records that change only targets or addresses do not change the members."""
    assert VoterHistory(base, entries).members_since == since


A, B = ReplicaKey(5, b"a" * 16), ReplicaKey(5, b"b" * 16)
OTHERS = VoterSet((Voter(ReplicaKey(1, b"o" * 16)),))


def test_r12_a_removed_voter_is_remembered_until_it_is_added_again() -> None:
    """It is identified by id and directory: with a new directory it is another replica."""
    removed = OTHERS.with_voter(Voter(A)).without_voter(5)
    assert removed.removed == (A,)
    replaced = removed.with_voter(Voter(B))
    assert replaced.removed == (A,)
    assert replaced.without_voter(5).removed == (A, B)
    assert replaced.with_voter(Voter(A)).removed == ()


def test_r12_the_newest_removed_voters_are_remembered() -> None:
    voters = OTHERS
    for number in range(MAX_REMOVED + 1):
        voters = voters.with_voter(Voter(ReplicaKey(number + 2, b"x" * 16))).without_voter(
            number + 2
        )
    assert [key.id for key in voters.removed] == list(range(3, MAX_REMOVED + 3))


def test_r12_a_removal_is_known_from_the_record_or_from_earlier_sets() -> None:
    """Kafka's leaders do not record removals. A truncated removal does not count."""
    voters = OTHERS.with_voter(Voter(A))
    by_kafka = VoterHistory(OTHERS, ((3, voters), (7, OTHERS)))
    ours = VoterHistory(voters.without_voter(5))
    assert [it.has_removed(A) for it in (by_kafka, ours)] == [True, True]
    assert [it.has_removed(B) for it in (by_kafka, ours)] == [False, False]
    by_kafka.truncate(7)
    assert not by_kafka.has_removed(A)
    assert not VoterHistory(OTHERS).has_removed(A)


def test_r12_removals_that_kafka_left_out_are_recorded_again() -> None:
    """A kraftlog leader removed A, Kafka's leader removed B; kraftlog's next record has both.

    A record that adds one of them again lists only the other as removed.
    """
    ours = OTHERS.with_voter(Voter(A)).without_voter(5)
    by_kafka = OTHERS.with_voter(Voter(B))
    history = VoterHistory(VoterSet(), ((0, ours), (3, by_kafka), (7, OTHERS)))
    assert [history.has_removed(A), history.has_removed(B)] == [True, True]
    assert history.with_removed(OTHERS).removed == (A, B)
    assert history.with_removed(OTHERS.with_voter(Voter(B))).removed == (A,)


def test_r12_a_voter_that_only_the_configuration_has_was_not_removed() -> None:
    """A node formatted with --initial-controllers may find a quorum that does not include it."""
    configured = OTHERS.with_voter(Voter(A))
    assert not VoterHistory(configured, ((0, OTHERS),)).has_removed(A)
    assert VoterHistory(configured, ((3, OTHERS),)).has_removed(A)  # a base from a snapshot


def test_r12_a_voter_without_a_known_directory_was_not_removed() -> None:
    """The settings may list a node that the first record does not have."""
    assert not VoterHistory(voters_by_id(1, 5), ((0, OTHERS),)).has_removed(A)
