"""What a replica is after a start: by what it had promised, and by nothing else."""

from __future__ import annotations

import pytest

from kraftlog.raft.messages import ElectionState, Fetch, Send, Vote
from tests.raft.solo import (
    ELECTION,
    FETCH,
    Solo,
    follower,
    key,
    of,
    sends,
    voters_of,
)


@pytest.mark.parametrize(
    ("promised", "state"),
    [
        (ElectionState(), ("unattached", 0, -1, -1)),
        (ElectionState(5), ("unattached", 5, -1, -1)),
        (ElectionState(5, -1, key(3)), ("voted", 5, -1, 3)),
        (ElectionState(5, -1, key(1)), ("voted", 5, -1, 1)),
        (ElectionState(5, 2), ("follower", 5, 2, -1)),
        (ElectionState(5, 2, key(3)), ("follower", 5, 2, 3)),
    ],
)
def test_q8_a_voter_starts_as_what_it_had_promised(
    promised: ElectionState, state: tuple[str, int, int, int]
) -> None:
    end = 10 if promised.epoch else 0
    assert Solo(promised, end=end).state == state


def test_q8_who_led_before_the_restart_is_resigned() -> None:
    """Q8, Q17: it no longer knows what it told whom, so it leads no more in that epoch."""
    solo = Solo(ElectionState(5, 1, key(1)))
    assert solo.role == "resigned"
    assert solo.propose("slot") != 0
    assert not solo.asked(solo.vote(2)).granted
    solo.wait_for("election")
    assert (solo.role, solo.core.election.epoch) == ("prospective", 5)


@pytest.mark.parametrize(
    "promised", [ElectionState(), ElectionState(5, 2), ElectionState(5, -1, key(3))]
)
def test_q1_one_that_is_no_voter_starts_as_an_observer(promised: ElectionState) -> None:
    solo = Solo(promised, voters=voters_of(2, 3, 4))
    assert solo.role == "observer"


@pytest.mark.parametrize(
    "promised",
    [
        ElectionState(),
        ElectionState(5),
        ElectionState(5, -1, key(1)),
        ElectionState(5, 1, key(1)),
    ],
)
def test_q1_a_sole_voter_elects_itself_at_once_without_a_message(promised: ElectionState) -> None:
    solo = Solo(promised, voters=voters_of(1), end=10 if promised.epoch else 0)
    assert solo.state == ("leader", promised.epoch + 1, 1, 1)
    assert of(Send, solo.first) == []


def test_q4_without_the_file_it_starts_in_the_epoch_of_the_log_and_has_no_vote_there() -> None:
    solo = Solo(ElectionState(), epochs=((1, 0), (7, 4)))
    assert (solo.core.election.epoch, solo.core.election.leader_id) == (7, -1)
    assert solo.persisted == solo.core.election
    for candidate in (2, 3):
        assert not solo.asked(solo.vote(candidate)).granted
    assert solo.asked(solo.vote(2, epoch=8)).granted  # a later epoch is another matter


@pytest.mark.parametrize("voted", [2, 3])
def test_q2_a_vote_outlives_a_restart(voted: int) -> None:
    before = Solo(ElectionState(4))
    assert before.asked(before.vote(voted, epoch=5)).granted
    after = Solo(before.persisted)
    assert [after.asked(after.vote(candidate)).granted for candidate in (2, 3)] == [
        voted == candidate for candidate in (2, 3)
    ]


def test_q32_a_voter_that_knows_no_leader_asks_a_voter_with_what_it_has() -> None:
    solo = Solo(ElectionState(5), epochs=((1, 0), (3, 6)))
    (asked,) = sends(solo.wait_for("discover")).values()
    assert asked == Fetch("cluster", key(1), 5, 10, 3, 0, 500, 8 << 20)


def test_q32_without_a_leader_by_the_election_timeout_a_voter_asks_for_pre_votes() -> None:
    solo = Solo(ElectionState(5))
    assert ELECTION <= solo.in_ms("election") < 2 * ELECTION
    votes = sends(solo.wait_for("election"))
    assert solo.state == ("prospective", 5, -1, -1)
    assert sorted(votes) == [2, 3]
    assert all(isinstance(vote, Vote) and vote.pre_vote for vote in votes.values())


def test_q22_the_high_watermark_after_a_start_is_what_was_recovered() -> None:
    """Q8: never more than was known to be committed."""
    solo = follower(high_watermark=6)
    assert solo.core.log.high_watermark == 6
    assert solo.in_ms("fetch timeout") == FETCH
