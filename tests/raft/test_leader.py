"""Leading: the first record, telling the voters, the high watermark, proposals, stepping down."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.raft.fetching import NO_NEWS
from kraftlog.raft.messages import (
    Append,
    Begin,
    BeginAnswer,
    Committed,
    LeaderChange,
    LeaderChanged,
    LogDurable,
    Proposed,
    Reply,
    Send,
)
from tests.raft.solo import (
    FETCH,
    Solo,
    candidate,
    committed_leader,
    key,
    leader,
    of,
    replies,
    sends,
    unattached,
    voters_of,
)

FIVE = voters_of(1, 2, 3, 4, 5)
SILENCE = FETCH * 3 // 2


# The beginning -------------------------------------------------------------------------------


def test_q14_the_first_record_of_an_epoch_says_who_leads() -> None:
    """C43."""
    solo = candidate()
    effects = solo.answer(2, solo.voted())
    (append,) = of(Append, effects)
    batch = append.batch
    assert (batch.base_offset, batch.last_offset, batch.epoch) == (10, 10, 5)
    assert batch.payload == LeaderChange(1, voter_ids=(1, 2, 3), granting_ids=(1, 2))
    assert effects.index(append) < effects.index(of(Send, effects)[0])
    assert solo.core.log.epochs.entries() == [(1, 0), (5, 10)]


def test_q15_every_other_voter_is_told() -> None:
    """C44."""
    solo = candidate(voters=voters_of(1, 2, 3, 4))
    solo.answer(2, solo.voted())
    told = sends(solo.answer(4, solo.voted()))
    assert told == {peer: Begin("cluster", key(peer), 1, 5) for peer in (2, 3, 4)}


def test_q15_a_voter_is_told_again_until_it_answers() -> None:
    """Q24: with pauses that grow. C44, C118."""
    solo = leader()
    pauses = []
    for _ in range(5):
        solo.unanswered(3)
        pauses.append(solo.in_ms("tell 3"))
        assert sends(solo.wait_for("tell 3")) == {3: Begin("cluster", key(3), 1, 5)}
    assert pauses[-1] > 4 * pauses[0]
    solo.answer(3, BeginAnswer(0, 1, 5))
    assert "tell 3" not in solo.core.timers


def test_q15_a_fetch_in_the_epoch_endorses_as_well() -> None:
    """C44."""
    solo = leader()
    solo.unanswered(3)
    solo.ask(solo.fetch(3))
    assert "tell 3" not in solo.core.timers


@pytest.mark.parametrize(
    "answer",
    [BeginAnswer(ErrorCode.INVALID_REQUEST, -1, 5), BeginAnswer(0, -1, 4)],
    ids=["refused", "older epoch"],
)
def test_q15_a_refusal_endorses_nothing(answer: BeginAnswer) -> None:
    solo = leader()
    solo.answer(3, answer)
    assert "tell 3" in solo.core.timers


def test_q15_observers_are_not_told() -> None:
    solo = leader()
    effects = solo.ask(solo.fetch(9, epoch=4, last_epoch=1))
    assert (sends(effects), replies(effects)[0].leader_id) == ({}, 1)


# The high watermark --------------------------------------------------------------------------


def high_watermark_after(solo: Solo, ends: dict[int, int]) -> int:
    for replica, end in ends.items():
        epoch = 5 if end > 10 else 1
        solo.ask(solo.fetch(replica, offset=end, last_epoch=epoch), channel=replica)
    return solo.core.log.high_watermark


@pytest.mark.parametrize(
    ("voters", "ends", "expected"),
    [
        (voters_of(1, 2, 3), {}, 0),
        (voters_of(1, 2, 3), {2: 10}, 0),  # equal to the start of the epoch: not yet
        (voters_of(1, 2, 3), {2: 10, 3: 10}, 0),
        (voters_of(1, 2, 3), {2: 11}, 11),
        (voters_of(1, 2, 3), {2: 13}, 13),
        (voters_of(1, 2, 3), {2: 11, 3: 12}, 12),
        (voters_of(1, 2, 3), {8: 13, 9: 13}, 0),  # observers
        (voters_of(1, 2, 3), {8: 13, 3: 11}, 11),
        (FIVE, {2: 13}, 0),
        (FIVE, {2: 13, 3: 10}, 0),
        (FIVE, {2: 13, 3: 11}, 11),
        (FIVE, {2: 13, 3: 11, 4: 12, 5: 7}, 12),
        (voters_of(1, 2), {2: 12}, 12),
        (voters_of(1), {}, 13),
    ],
)
def test_q21_it_moves_with_a_majority_beyond_the_epochs_first_record(
    voters: Any, ends: dict[int, int], expected: int
) -> None:
    """C43, C46, C94."""
    solo = leader(voters=voters)
    for slot in "ab":
        solo.propose(slot)
    solo.step()
    assert solo.core.log.end == 13
    assert high_watermark_after(solo, ends) == expected


def test_q21_a_leader_counts_itself_up_to_its_own_flush() -> None:
    """Q6 too. C46."""
    solo = leader(voters=FIVE)
    solo.slow_disk = True
    solo.propose("a")
    solo.step()
    assert high_watermark_after(solo, {2: 12, 3: 12}) == 11
    assert high_watermark_after(solo, {4: 12}) == 12  # three others do without it
    solo = leader()
    solo.slow_disk = True
    solo.propose("a")
    solo.step()
    assert high_watermark_after(solo, {2: 12}) == 11
    assert of(Committed, solo.flush()) == [Committed(12)]


def test_q6_a_sole_voter_commits_nothing_before_its_own_flush() -> None:
    solo = unattached(voters=voters_of(1))
    solo.slow_disk = True
    assert solo.propose("a") == 0
    effects = solo.step()
    assert (of(Committed, effects), of(Proposed, effects)) == ([], [])
    effects = solo.flush()
    assert (of(Committed, effects), of(Proposed, effects)) == (
        [Committed(12)],
        [Proposed("a", 0, 12)],
    )


def test_q21_it_never_goes_back() -> None:
    """A replaced disk may fetch from further back than before. C47."""
    solo = committed_leader()
    assert solo.core.log.high_watermark == 11
    effects = solo.ask(solo.fetch(2, offset=3, last_epoch=1))
    assert of(Committed, effects) == []
    solo.propose("a")
    assert high_watermark_after(solo, {2: 3}) == 11
    assert high_watermark_after(solo, {3: 12}) == 12


@pytest.mark.parametrize(
    "changes",
    [
        {"epoch": 4, "last_epoch": 1},
        {"epoch": 6},
        {"cluster_id": "other"},
        {"epoch": -1},
        {"last_epoch": -1},
        {"offset": 99},
        {"last_epoch": 3},
    ],
    ids=str,
)
def test_q21_refused_diverging_or_unchecked_fetches_count_for_nothing(
    changes: dict[str, Any],
) -> None:
    solo = leader()
    for replica in (2, 3):
        solo.ask(solo.fetch(replica, **changes), channel=replica)
    assert solo.core.log.high_watermark == 0
    assert solo.progress(2).end_offset == -1
    solo.wait(SILENCE)
    assert solo.role == "resigned"


# Proposals -----------------------------------------------------------------------------------


def test_q25_a_proposal_is_one_batch_and_is_told_once_it_is_committed() -> None:
    """C58."""
    solo = committed_leader()
    assert solo.propose("slot", count=3) == 0
    effects = solo.step()
    (append,) = of(Append, effects)
    assert (append.batch.base_offset, append.batch.last_offset, append.batch.epoch) == (11, 13, 5)
    assert of(Proposed, effects) == []
    assert of(Proposed, solo.ask(solo.fetch(2, offset=13))) == []
    effects = solo.ask(solo.fetch(2))
    assert of(Committed, effects) + of(Proposed, effects) == [
        Committed(14),
        Proposed("slot", 0, 14),
    ]


@pytest.mark.parametrize("name", ["unattached", "voted", "prospective", "candidate", "follower"])
def test_q25_only_a_leader_accepts_proposals(name: str) -> None:
    """C57."""
    from tests.raft.solo import EVERY_ROLE

    for solo in (EVERY_ROLE[name](), EVERY_ROLE["resigned"](), EVERY_ROLE["observer"]()):
        assert solo.propose("slot") == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert solo.step() == []


def test_q25_many_proposals_are_told_in_their_order_and_once() -> None:
    solo = committed_leader()
    for slot in "abc":
        solo.propose(slot)
    solo.step()
    assert of(Proposed, solo.ask(solo.fetch(2, offset=13))) == [
        Proposed("a", 0, 12),
        Proposed("b", 0, 13),
    ]
    assert of(Proposed, solo.ask(solo.fetch(3, offset=13), channel=3)) == []
    assert of(Proposed, solo.ask(solo.fetch(3), channel=3)) == [Proposed("c", 0, 14)]


@pytest.mark.parametrize("how", ["vote", "begin", "silence"])
def test_q25_of_what_is_not_committed_nobody_knows_what_becomes(how: str) -> None:
    """Q11: it fails as 'outcome unknown', for it may yet commit. C59."""
    solo = committed_leader()
    solo.propose("a")
    solo.step()
    if how == "vote":
        effects = solo.ask(solo.vote(2, epoch=6))
    elif how == "begin":
        effects = solo.ask(solo.begin(2, 6))
    else:
        effects = solo.wait(SILENCE)
    assert of(Proposed, effects) == [Proposed("a", ErrorCode.REQUEST_TIMED_OUT)]
    assert solo.propose("b") == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_q26_leadership_is_announced_before_its_commits() -> None:
    solo = candidate()
    effects = solo.answer(2, solo.voted()) + solo.ask(solo.fetch(2))
    told = [effect for effect in effects if isinstance(effect, (LeaderChanged, Committed))]
    assert told == [LeaderChanged(1, 5), Committed(11)]


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("vote", LeaderChanged(-1, 6)),
        ("begin", LeaderChanged(2, 6)),
        ("silence", LeaderChanged(-1, 5)),
    ],
)
def test_q26_the_state_machine_is_told_once_that_leadership_is_lost(
    how: str, told: LeaderChanged
) -> None:
    solo = committed_leader()
    if how == "vote":
        effects = solo.ask(solo.vote(2, epoch=6))
    elif how == "begin":
        effects = solo.ask(solo.begin(2, 6))
    else:
        effects = solo.wait(SILENCE) + solo.wait_for("election")
    assert of(LeaderChanged, effects) == [told]


# Losing touch --------------------------------------------------------------------------------


def test_q11_a_leader_unfetched_for_one_and_a_half_timeouts_resigns() -> None:
    """C53."""
    solo = leader()
    solo.wait(SILENCE - 1)
    assert solo.role == "leader"
    solo.wait(1)
    assert (solo.role, solo.core.election.epoch) == ("resigned", 5)
    solo.wait_for("election")
    assert (solo.role, solo.core.election.epoch) == ("prospective", 5)


def test_q11_a_fetch_of_one_of_two_others_is_a_majority() -> None:
    solo = leader()
    for _ in range(5):
        solo.wait(SILENCE - 1)
        solo.ask(solo.fetch(2))
    assert solo.role == "leader"
    solo.wait(SILENCE)
    assert solo.role == "resigned"


def test_q11_of_four_others_two_are_needed_and_observers_do_not_count() -> None:
    """C53."""
    solo = leader(voters=FIVE)
    start = solo.now.monotonic_ms
    for replica in (2, 8, 9):
        solo.wait(500)
        solo.ask(solo.fetch(replica), channel=replica)
    solo.wait(start + SILENCE - 1 - solo.now.monotonic_ms)
    assert solo.role == "leader"
    solo.wait(1)
    assert solo.role == "resigned"


def test_q11_a_sole_voter_never_times_out() -> None:
    """C53. C134."""
    solo = unattached(voters=voters_of(1))
    solo.wait(100 * SILENCE)
    assert solo.role == "leader"
    assert solo.core.deadline() is None


def test_q11_a_voter_known_by_id_counts_by_the_fetching_directory() -> None:
    """Its disk was replaced: the directory that fetched before is no more."""
    from kraftlog.logstate.voters import ReplicaKey, voters_by_id

    solo = leader(voters=voters_by_id(1, 2))
    solo.ask(solo.fetch(2))
    assert solo.core.log.high_watermark == 11
    wiped = ReplicaKey(2, bytes(15) + b"\x77")
    for _ in range(4):
        solo.wait(SILENCE - 1)
        solo.ask(solo.fetch(2, replica=wiped))
    assert solo.role == "leader"
    solo.propose("a")
    solo.step()
    assert of(Proposed, solo.ask(solo.fetch(2, replica=wiped))) == [Proposed("a", 0, 12)]


@pytest.mark.parametrize("how", ["newer vote", "newer begin", "newer answer"])
def test_q2_a_leader_steps_down_for_any_newer_epoch(how: str) -> None:
    """C51."""
    solo = leader()
    if how == "newer vote":
        solo.ask(solo.vote(2, epoch=7, end_offset=0))
        assert solo.state == ("unattached", 7, -1, -1)
    elif how == "newer begin":
        solo.ask(solo.begin(2, 7))
        assert solo.state == ("follower", 7, 2, -1)
    else:
        solo.answer(3, BeginAnswer(ErrorCode.FENCED_LEADER_EPOCH, 2, 7))
        assert solo.state == ("follower", 7, 2, -1)


# Answering fetches ---------------------------------------------------------------------------


def parked(solo: Solo, replica: int = 2, **changes: Any) -> None:
    effects = solo.ask(solo.fetch(replica, **changes), channel=replica)
    assert of(Reply, effects) == []


def test_q20_a_fetch_with_nothing_to_get_waits_for_records() -> None:
    """C60."""
    solo = committed_leader()
    for replica in (2, 9):
        parked(solo, replica)
    solo.propose("a")
    assert [(body.error, body.offset, body.limit) for body in replies(solo.step())] == [
        (0, 11, 12),
        (0, 11, 12),
    ]


def test_q20_records_there_are_answered_at_once() -> None:
    solo = committed_leader()
    (answer,) = replies(solo.ask(solo.fetch(2, offset=4, last_epoch=1)))
    assert (answer.error, answer.offset, answer.limit, answer.high_watermark) == (0, 4, 11, 11)


def test_q20_a_new_high_watermark_is_told_without_waiting_for_a_record() -> None:
    """C60, C83."""
    solo = leader()
    parked(solo, 9)
    (told, _) = replies(solo.ask(solo.fetch(2)))
    assert (told.high_watermark, told.offset, told.limit) == (11, 11, 11)
    (told,) = replies(solo.ask(solo.fetch(3, high_watermark=0), channel=3))
    assert told.high_watermark == 11
    parked(solo, 3)


def test_q20_fetches_that_do_not_wait_learn_commits_with_the_next_records() -> None:
    """A replica that only votes says so by the high watermark that it claims to know."""
    solo = leader()
    parked(solo, 9, high_watermark=NO_NEWS)
    assert replies(solo.ask(solo.fetch(2), channel=2))[0].high_watermark == 11
    solo.propose("a")
    told = {answer.high_watermark for answer in replies(solo.step())}
    assert told == {11}


@pytest.mark.parametrize("wait", [1, 500])
def test_q20_a_fetch_is_held_for_its_max_wait_and_no_longer(wait: int) -> None:
    """C60."""
    solo = committed_leader()
    parked(solo, 9, max_wait_ms=wait)
    assert solo.wait(wait - 1) == []
    (answer,) = replies(solo.wait(1))
    assert (answer.error, answer.offset, answer.limit) == (0, 11, 11)


def test_q20_a_fetch_that_will_not_wait_is_answered() -> None:
    solo = committed_leader()
    assert len(replies(solo.ask(solo.fetch(9, max_wait_ms=0)))) == 1


@pytest.mark.parametrize(
    ("how", "leader_id", "epoch"), [("vote", -1, 6), ("begin", 2, 6), ("silence", -1, 5)]
)
def test_q20_a_change_of_leadership_ends_the_wait(how: str, leader_id: int, epoch: int) -> None:
    """Q23: with the leader that is known then. C60."""
    solo = leader()
    solo.wait(SILENCE - 100)
    parked(solo, 9)
    if how == "vote":
        effects = solo.ask(solo.vote(2, epoch=6))
    elif how == "begin":
        effects = solo.ask(solo.begin(2, 6))
    else:
        effects = solo.wait(100)
    answer = replies(effects)[0]
    assert (answer.error, answer.leader_id, answer.epoch) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        leader_id,
        epoch,
    )


def test_q6_a_leader_may_send_what_it_has_not_flushed() -> None:
    solo = committed_leader()
    solo.slow_disk = True
    parked(solo, 9)
    solo.propose("a")
    effects = of(Reply, solo.step())
    assert effects
    assert all(LogDurable not in map(type, reply.after) for reply in effects)
