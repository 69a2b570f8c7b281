"""R3, R4: which observer becomes a voter on the way to a target, and when none does."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey, Voter
from kraftlog.raft.describe import describe
from tests.raft.solo import ELECTION, FETCH, Solo, committed_leader, key

OTHER_DIRECTORY = ReplicaKey(4, b"o" * 16)


def fetches(solo: Solo, by: int, behind: int = 0, replica: ReplicaKey | None = None) -> None:
    """One fetch of a replica that lacks the last `behind` records."""
    offset = solo.core.log.end - behind
    solo.ask(
        solo.fetch(
            by,
            offset=offset,
            last_epoch=solo.core.log.epochs.epoch_at(offset - 1),
            max_wait_ms=0,
            replica=replica or key(by),
        ),
        channel=by,
    )


def catches_up(solo: Solo, by: int) -> None:
    """One round: it holds what there was at the fetch before."""
    fetches(solo, by)
    fetches(solo, by)


def commit(solo: Solo) -> None:
    for voter in solo.core.others:
        fetches(solo, voter)


def walk_to(solo: Solo, *targets: int) -> None:
    """The target is named and committed: from then on the leader may take a step."""
    assert solo.core.reassign("walk", targets, solo.now) == ErrorCode.NONE
    solo.step()
    commit(solo)


def voters(solo: Solo) -> tuple[int, ...]:
    return solo.core.log.voter_set.ids


def waits_for(solo: Solo) -> tuple[int, ...]:
    described = describe(solo.core, solo.now)
    assert described is not None
    return described.waits_for


def test_r3_the_most_caught_up_target_is_added_first() -> None:
    """4 and 5 have caught up; 5 holds one record more."""
    solo = committed_leader()
    for observer in (4, 5):
        catches_up(solo, observer)
    solo.propose("a")
    solo.step()
    fetches(solo, 5)
    commit(solo)
    walk_to(solo, 1, 2, 3, 4, 5)
    assert voters(solo) == (1, 2, 3, 5)


def test_r3_of_equally_caught_up_targets_the_lowest_id_is_added() -> None:
    solo = committed_leader()
    for observer in (5, 4):
        catches_up(solo, observer)
    walk_to(solo, 1, 2, 3, 4, 5)
    assert voters(solo) == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("targets", "first_step"),
    [
        ((1, 2, 4), (1, 2, 3, 4)),
        ((4, 5, 6), (1, 2, 3, 4)),
        ((1, 4), (1, 3)),
        ((4,), (1, 3)),
        ((1, 2), (1, 2)),
    ],
)
def test_r3_adds_first_unless_more_are_removed(
    targets: tuple[int, ...], first_step: tuple[int, ...]
) -> None:
    """As many new as removed, or more: one is added. The leader is not the first to go."""
    solo = committed_leader()
    for observer in (4, 5, 6):
        catches_up(solo, observer)
    walk_to(solo, *targets)
    sets = [those.ids for _, those in solo.core.log.voters.entries]
    assert next(ids for ids in sets if ids != (1, 2, 3)) == first_step


@pytest.mark.parametrize(("took_ms", "added"), [(ELECTION - 1, True), (ELECTION, False)])
def test_r4_a_round_must_take_less_than_the_election_timeout(took_ms: int, added: bool) -> None:
    solo = committed_leader()
    fetches(solo, 4, behind=5)
    solo.wait(took_ms)
    fetches(solo, 4)
    walk_to(solo, 1, 2, 3, 4)
    assert voters(solo) == ((1, 2, 3, 4) if added else (1, 2, 3))


def test_r4_one_fetch_is_no_round() -> None:
    solo = committed_leader()
    fetches(solo, 4)
    walk_to(solo, 1, 2, 3, 4)
    assert voters(solo) == (1, 2, 3)
    fetches(solo, 4, behind=1)  # where the log ended at its first fetch
    assert voters(solo) == (1, 2, 3, 4)


def test_r4_a_fetch_short_of_the_rounds_end_ends_no_round() -> None:
    solo = committed_leader()
    fetches(solo, 4, behind=5)
    fetches(solo, 4, behind=1)
    walk_to(solo, 1, 2, 3, 4)
    assert voters(solo) == (1, 2, 3)


@pytest.mark.parametrize(("silent_ms", "added"), [(FETCH - 1, True), (FETCH, False)])
def test_r4_an_observer_that_fetches_no_more_is_not_added(silent_ms: int, added: bool) -> None:
    solo = committed_leader()
    catches_up(solo, 4)
    solo.wait(silent_ms)
    error = solo.core.add_voter("add", Voter(key(4)), solo.now)
    assert error == (ErrorCode.NONE if added else ErrorCode.REQUEST_TIMED_OUT)


@pytest.mark.parametrize(("silent_ms", "added"), [(FETCH - 1, True), (FETCH, False)])
def test_r4_the_step_waits_for_a_target_that_fetches_no_more(silent_ms: int, added: bool) -> None:
    solo = committed_leader()
    catches_up(solo, 4)
    solo.wait(silent_ms)
    walk_to(solo, 1, 2, 3, 4)
    assert (4 in voters(solo)) is added
    assert waits_for(solo) == (() if added else (4,))


def test_r4_a_step_that_waits_changes_nothing_and_says_for_whom() -> None:
    """No other voter is removed meanwhile; one that has caught up is added at once."""
    solo = committed_leader()
    assert waits_for(solo) == ()
    walk_to(solo, 1, 4, 5)
    assert voters(solo) == (1, 2, 3)
    assert waits_for(solo) == (4, 5)
    end = solo.core.log.end
    catches_up(solo, 7)
    commit(solo)
    assert (voters(solo), solo.core.log.end) == ((1, 2, 3), end)
    catches_up(solo, 5)
    assert voters(solo) == (1, 2, 3, 5)
    assert waits_for(solo) == ()  # for that to be committed, and for no replica


def test_r2_two_observers_under_the_targets_id_hold_the_step() -> None:
    solo = committed_leader()
    catches_up(solo, 4)
    fetches(solo, 4, replica=OTHER_DIRECTORY)
    walk_to(solo, 1, 2, 3, 4)
    assert voters(solo) == (1, 2, 3)
    assert waits_for(solo) == (4,)
    solo.wait(FETCH - 1)
    catches_up(solo, 4)
    commit(solo)
    solo.wait(1)
    catches_up(solo, 4)
    assert voters(solo) == (1, 2, 3, 4)
    added = solo.core.log.voter_set.voter(4)
    assert added is not None
    assert added.key == key(4)
