"""Leaders: the first record, announcing, the high watermark, proposals, resigning."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.raft.fetching import IGNORE_HIGH_WATERMARK
from kraftlog.raft.messages import (
    Append,
    BeginEpoch,
    BeginEpochResult,
    Committed,
    LeaderChange,
    LeaderChanged,
    LogDurable,
    Proposed,
    Reply,
    Send,
)
from tests.raft.single_core import (
    CHECK_QUORUM_TIMEOUT_MS,
    SingleCore,
    candidate,
    committed_leader,
    key,
    leader,
    of_kind,
    replies,
    sends,
    unattached,
    voters_of,
)

FIVE = voters_of(1, 2, 3, 4, 5)


# The beginning -------------------------------------------------------------------------------


def test_q14_the_first_record_of_an_epoch_names_the_leader() -> None:
    """C43."""
    context = candidate()
    effects = context.respond(2, context.vote_result())
    (append,) = of_kind(Append, effects)
    batch = append.batch
    assert (batch.base_offset, batch.last_offset, batch.epoch) == (10, 10, 5)
    assert batch.payload == LeaderChange(1, voter_ids=(1, 2, 3), granting_ids=(1, 2))
    assert effects.index(append) < effects.index(of_kind(Send, effects)[0])
    assert context.core.log.epochs.entries() == [(1, 0), (5, 10)]


def test_q15_a_new_leader_announces_itself_to_every_voter() -> None:
    """C44."""
    context = candidate(voters=voters_of(1, 2, 3, 4))
    context.respond(2, context.vote_result())
    announcements = sends(context.respond(4, context.vote_result()))
    assert announcements == {peer: BeginEpoch("cluster", key(peer), 1, 5) for peer in (2, 3, 4)}


def test_q15_begin_quorum_epoch_is_repeated_until_answered() -> None:
    """Q24: with a growing backoff. C44, C118."""
    context = leader()
    pauses = []
    for _ in range(5):
        context.no_response(3)
        pauses.append(context.ms_until("begin-epoch 3"))
        assert sends(context.wait_for("begin-epoch 3")) == {3: BeginEpoch("cluster", key(3), 1, 5)}
    assert pauses[-1] > 4 * pauses[0]
    context.respond(3, BeginEpochResult(0, 1, 5))
    assert "begin-epoch 3" not in context.core.timers


def test_q15_a_fetch_in_the_epoch_acknowledges_the_leader() -> None:
    """C44."""
    context = leader()
    context.no_response(3)
    context.ask(context.fetch(3))
    assert "begin-epoch 3" not in context.core.timers


@pytest.mark.parametrize(
    "answer",
    [BeginEpochResult(ErrorCode.INVALID_REQUEST, -1, 5), BeginEpochResult(0, -1, 4)],
    ids=["refused", "older epoch"],
)
def test_q15_an_error_does_not_acknowledge_the_leader(answer: BeginEpochResult) -> None:
    context = leader()
    context.respond(3, answer)
    assert "begin-epoch 3" in context.core.timers


def test_q15_observers_get_no_begin_quorum_epoch() -> None:
    context = leader()
    effects = context.ask(context.fetch(9, epoch=4, last_epoch=1))
    assert (sends(effects), replies(effects)[0].leader_id) == ({}, 1)


# The high watermark --------------------------------------------------------------------------


def high_watermark_after(context: SingleCore, ends: dict[int, int]) -> int:
    for replica, end in ends.items():
        epoch = 5 if end > 10 else 1
        context.ask(context.fetch(replica, offset=end, last_epoch=epoch), channel=replica)
    return context.core.log.high_watermark


@pytest.mark.parametrize(
    ("voters", "ends", "expected"),
    [
        (voters_of(1, 2, 3), {}, 0),
        (voters_of(1, 2, 3), {2: 10}, 0),  # only up to the start of the epoch
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
def test_q21_the_high_watermark_moves_with_a_majority_of_the_epoch(
    voters: Any, ends: dict[int, int], expected: int
) -> None:
    """C43, C46, C94."""
    context = leader(voters=voters)
    for pending in "ab":
        context.propose(pending)
    context.step()
    assert context.core.log.end == 13
    assert high_watermark_after(context, ends) == expected


def test_q21_a_leader_counts_itself_up_to_its_own_flush() -> None:
    """Q6 too. C46."""
    context = leader(voters=FIVE)
    context.slow_disk = True
    context.propose("a")
    context.step()
    assert high_watermark_after(context, {2: 12, 3: 12}) == 11
    assert high_watermark_after(context, {4: 12}) == 12  # three others are enough
    context = leader()
    context.slow_disk = True
    context.propose("a")
    context.step()
    assert high_watermark_after(context, {2: 12}) == 11
    assert of_kind(Committed, context.flush()) == [Committed(12)]


def test_q6_a_sole_voter_commits_nothing_before_its_own_flush() -> None:
    context = unattached(voters=voters_of(1))
    context.slow_disk = True
    assert context.propose("a") == 0
    effects = context.step()
    assert (of_kind(Committed, effects), of_kind(Proposed, effects)) == ([], [])
    effects = context.flush()
    assert (of_kind(Committed, effects), of_kind(Proposed, effects)) == (
        [Committed(12)],
        [Proposed("a", 0, 12)],
    )


def test_q21_the_high_watermark_never_decreases() -> None:
    """A replica with a replaced disk may fetch at an earlier offset than before. C47."""
    context = committed_leader()
    assert context.core.log.high_watermark == 11
    effects = context.ask(context.fetch(2, offset=3, last_epoch=1))
    assert of_kind(Committed, effects) == []
    context.propose("a")
    assert high_watermark_after(context, {2: 3}) == 11
    assert high_watermark_after(context, {3: 12}) == 12


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
    context = leader()
    for replica in (2, 3):
        context.ask(context.fetch(replica, **changes), channel=replica)
    assert context.core.log.high_watermark == 0
    assert context.progress(2).end_offset == -1
    context.wait(CHECK_QUORUM_TIMEOUT_MS)
    assert context.role == "resigned"


# Proposals -----------------------------------------------------------------------------------


def test_q25_a_proposal_is_one_batch_and_completes_on_commit() -> None:
    """C58."""
    context = committed_leader()
    assert context.propose("pending", count=3) == 0
    effects = context.step()
    (append,) = of_kind(Append, effects)
    assert (append.batch.base_offset, append.batch.last_offset, append.batch.epoch) == (11, 13, 5)
    assert of_kind(Proposed, effects) == []
    assert of_kind(Proposed, context.ask(context.fetch(2, offset=13))) == []
    effects = context.ask(context.fetch(2))
    assert of_kind(Committed, effects) + of_kind(Proposed, effects) == [
        Committed(14),
        Proposed("pending", 0, 14),
    ]


@pytest.mark.parametrize("name", ["unattached", "voted", "prospective", "candidate", "follower"])
def test_q25_only_a_leader_accepts_proposals(name: str) -> None:
    """C57."""
    from tests.raft.single_core import EVERY_ROLE

    for context in (EVERY_ROLE[name](), EVERY_ROLE["resigned"](), EVERY_ROLE["observer"]()):
        assert context.propose("pending") == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert context.step() == []


def test_q25_proposals_complete_in_order_and_once() -> None:
    context = committed_leader()
    for pending in "abc":
        context.propose(pending)
    context.step()
    assert of_kind(Proposed, context.ask(context.fetch(2, offset=13))) == [
        Proposed("a", 0, 12),
        Proposed("b", 0, 13),
    ]
    assert of_kind(Proposed, context.ask(context.fetch(3, offset=13), channel=3)) == []
    assert of_kind(Proposed, context.ask(context.fetch(3), channel=3)) == [Proposed("c", 0, 14)]


@pytest.mark.parametrize("how", ["vote", "begin", "silence"])
def test_q25_uncommitted_proposals_end_with_an_unknown_outcome(how: str) -> None:
    """Q11: a later leader may still commit them. C59."""
    context = committed_leader()
    context.propose("a")
    context.step()
    if how == "vote":
        effects = context.ask(context.vote(2, epoch=6))
    elif how == "begin":
        effects = context.ask(context.begin_epoch(2, 6))
    else:
        effects = context.wait(CHECK_QUORUM_TIMEOUT_MS)
    assert of_kind(Proposed, effects) == [Proposed("a", ErrorCode.REQUEST_TIMED_OUT)]
    assert context.propose("b") == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_q26_leadership_is_announced_before_its_commits() -> None:
    context = candidate()
    effects = context.respond(2, context.vote_result()) + context.ask(context.fetch(2))
    reported = [effect for effect in effects if isinstance(effect, (LeaderChanged, Committed))]
    assert reported == [LeaderChanged(1, 5), Committed(11)]


@pytest.mark.parametrize(
    ("how", "outcome"),
    [
        ("vote", LeaderChanged(-1, 6)),
        ("begin", LeaderChanged(2, 6)),
        ("silence", LeaderChanged(-1, 5)),
    ],
)
def test_q26_lost_leadership_is_reported_once(how: str, outcome: LeaderChanged) -> None:
    context = committed_leader()
    if how == "vote":
        effects = context.ask(context.vote(2, epoch=6))
    elif how == "begin":
        effects = context.ask(context.begin_epoch(2, 6))
    else:
        effects = context.wait(CHECK_QUORUM_TIMEOUT_MS) + context.wait_for("election")
    assert of_kind(LeaderChanged, effects) == [outcome]


# Losing contact -----------------------------------------------------------------------------


def test_q11_a_leader_without_fetches_for_1_5_fetch_timeouts_resigns() -> None:
    """C53."""
    context = leader()
    context.wait(CHECK_QUORUM_TIMEOUT_MS - 1)
    assert context.role == "leader"
    context.wait(1)
    assert (context.role, context.core.election.epoch) == ("resigned", 5)
    context.wait_for("election")
    assert (context.role, context.core.election.epoch) == ("prospective", 5)


def test_q11_a_fetch_of_one_of_two_others_is_a_majority() -> None:
    context = leader()
    for _ in range(5):
        context.wait(CHECK_QUORUM_TIMEOUT_MS - 1)
        context.ask(context.fetch(2))
    assert context.role == "leader"
    context.wait(CHECK_QUORUM_TIMEOUT_MS)
    assert context.role == "resigned"


def test_q11_of_four_others_two_are_needed_and_observers_do_not_count() -> None:
    """C53."""
    context = leader(voters=FIVE)
    start = context.now.monotonic_ms
    for replica in (2, 8, 9):
        context.wait(500)
        context.ask(context.fetch(replica), channel=replica)
    context.wait(start + CHECK_QUORUM_TIMEOUT_MS - 1 - context.now.monotonic_ms)
    assert context.role == "leader"
    context.wait(1)
    assert context.role == "resigned"


def test_q11_a_sole_voter_never_times_out() -> None:
    """C53. C134."""
    context = unattached(voters=voters_of(1))
    context.wait(100 * CHECK_QUORUM_TIMEOUT_MS)
    assert context.role == "leader"
    assert context.core.deadline() is None


def test_q11_a_voter_known_by_id_counts_by_the_fetching_directory() -> None:
    """Its disk was replaced, so the directory that fetched before does not count."""
    from kraftlog.logstate.voters import ReplicaKey, voters_by_id

    context = leader(voters=voters_by_id(1, 2))
    context.ask(context.fetch(2))
    assert context.core.log.high_watermark == 11
    wiped = ReplicaKey(2, bytes(15) + b"\x77")
    for _ in range(4):
        context.wait(CHECK_QUORUM_TIMEOUT_MS - 1)
        context.ask(context.fetch(2, replica=wiped))
    assert context.role == "leader"
    context.propose("a")
    context.step()
    assert of_kind(Proposed, context.ask(context.fetch(2, replica=wiped))) == [Proposed("a", 0, 12)]


@pytest.mark.parametrize("how", ["newer vote", "newer begin", "newer answer"])
def test_q2_a_leader_steps_down_for_any_newer_epoch(how: str) -> None:
    """C51."""
    context = leader()
    if how == "newer vote":
        context.ask(context.vote(2, epoch=7, end_offset=0))
        assert context.state == ("unattached", 7, -1, -1)
    elif how == "newer begin":
        context.ask(context.begin_epoch(2, 7))
        assert context.state == ("follower", 7, 2, -1)
    else:
        context.respond(3, BeginEpochResult(ErrorCode.FENCED_LEADER_EPOCH, 2, 7))
        assert context.state == ("follower", 7, 2, -1)


# Responding to fetches -----------------------------------------------------------------------


def park_fetch(context: SingleCore, replica: int = 2, **changes: Any) -> None:
    effects = context.ask(context.fetch(replica, **changes), channel=replica)
    assert of_kind(Reply, effects) == []


def test_q20_a_fetch_with_nothing_to_get_waits_for_records() -> None:
    """C60."""
    context = committed_leader()
    for replica in (2, 9):
        park_fetch(context, replica)
    context.propose("a")
    assert [(body.error, body.offset, body.limit) for body in replies(context.step())] == [
        (0, 11, 12),
        (0, 11, 12),
    ]


def test_q20_available_records_are_sent_at_once() -> None:
    context = committed_leader()
    (answer,) = replies(context.ask(context.fetch(2, offset=4, last_epoch=1)))
    assert (answer.error, answer.offset, answer.limit, answer.high_watermark) == (0, 4, 11, 11)


def test_q20_a_new_high_watermark_completes_parked_fetches() -> None:
    """C60, C83."""
    context = leader()
    park_fetch(context, 9)
    (answer, _) = replies(context.ask(context.fetch(2)))
    assert (answer.high_watermark, answer.offset, answer.limit) == (11, 11, 11)
    (answer,) = replies(context.ask(context.fetch(3, high_watermark=0), channel=3))
    assert answer.high_watermark == 11
    park_fetch(context, 3)


def test_q20_fetches_that_ignore_commits_learn_them_with_the_next_records() -> None:
    """A replica that only votes sends the maximal high watermark, IGNORE_HIGH_WATERMARK."""
    context = leader()
    park_fetch(context, 9, high_watermark=IGNORE_HIGH_WATERMARK)
    assert replies(context.ask(context.fetch(2), channel=2))[0].high_watermark == 11
    context.propose("a")
    high_watermarks = {answer.high_watermark for answer in replies(context.step())}
    assert high_watermarks == {11}


@pytest.mark.parametrize("wait", [1, 500])
def test_q20_a_fetch_is_held_for_its_max_wait_and_no_longer(wait: int) -> None:
    """C60."""
    context = committed_leader()
    park_fetch(context, 9, max_wait_ms=wait)
    assert context.wait(wait - 1) == []
    (answer,) = replies(context.wait(1))
    assert (answer.error, answer.offset, answer.limit) == (0, 11, 11)


def test_q20_a_fetch_without_a_max_wait_is_answered() -> None:
    context = committed_leader()
    assert len(replies(context.ask(context.fetch(9, max_wait_ms=0)))) == 1


@pytest.mark.parametrize(
    ("how", "leader_id", "epoch"), [("vote", -1, 6), ("begin", 2, 6), ("silence", -1, 5)]
)
def test_q20_a_change_of_leadership_ends_the_wait(how: str, leader_id: int, epoch: int) -> None:
    """Q23: the response names the known leader. C60."""
    context = leader()
    context.wait(CHECK_QUORUM_TIMEOUT_MS - 100)
    park_fetch(context, 9)
    if how == "vote":
        effects = context.ask(context.vote(2, epoch=6))
    elif how == "begin":
        effects = context.ask(context.begin_epoch(2, 6))
    else:
        effects = context.wait(100)
    answer = replies(effects)[0]
    assert (answer.error, answer.leader_id, answer.epoch) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        leader_id,
        epoch,
    )


def test_q6_a_leader_may_send_what_it_has_not_flushed() -> None:
    context = committed_leader()
    context.slow_disk = True
    park_fetch(context, 9)
    context.propose("a")
    effects = of_kind(Reply, context.step())
    assert effects
    assert all(LogDurable not in map(type, reply.after) for reply in effects)
