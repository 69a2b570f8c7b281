"""R3, R4: which observer becomes a voter during a reassignment, and when none does."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey, Voter
from kraftlog.raft.describe import describe
from kraftlog.raft.messages import SnapshotFetch, SnapshotTaken
from kraftlog.raft.roles.leader import Leader
from kraftlog.types import OffsetAndEpoch
from tests.raft.single_core import (
    CONFIG,
    ELECTION_TIMEOUT_MS,
    FETCH_TIMEOUT_MS,
    SingleCore,
    committed_leader,
    key,
)

#: How long a leader holds a fetch without records.
HELD_MS = CONFIG.fetch_max_wait_ms
OTHER_DIRECTORY = ReplicaKey(4, b"o" * 16)


def fetch_as(
    context: SingleCore,
    by: int,
    behind: int = 0,
    replica: ReplicaKey | None = None,
    max_wait_ms: int = 0,
) -> None:
    """Handle the fetch of a replica that lacks the last `behind` records."""
    offset = context.core.log.end - behind
    context.ask(
        context.fetch(
            by,
            offset=offset,
            last_epoch=context.core.log.epochs.epoch_at(offset - 1),
            max_wait_ms=max_wait_ms,
            replica=replica or key(by),
        ),
        channel=by,
    )


def catch_up(context: SingleCore, by: int) -> None:
    """One catch-up round: the second fetch reaches the log end of the first."""
    fetch_as(context, by)
    fetch_as(context, by)


def commit(context: SingleCore) -> None:
    for voter in context.core.others:
        fetch_as(context, voter)


def start_reassignment(context: SingleCore, *targets: int) -> None:
    """Start a reassignment and commit its target, so that the leader may take a step."""
    assert context.core.reassign("walk", targets, context.now) == ErrorCode.NONE
    context.step()
    commit(context)


def voters(context: SingleCore) -> tuple[int, ...]:
    return context.core.log.voter_set.ids


def is_caught_up(context: SingleCore, observer: int) -> bool:
    leader = context.core.role
    assert isinstance(leader, Leader)
    config = context.core.config
    return leader.progress.is_caught_up(
        key(observer), context.now, config.fetch_timeout_ms, config.election_timeout_ms
    )


def awaited_targets(context: SingleCore) -> tuple[int, ...]:
    described = describe(context.core, context.now)
    assert described is not None
    return described.awaited_targets


def test_r3_the_most_caught_up_target_is_added_first() -> None:
    """4 and 5 have caught up; 5 has one record more."""
    context = committed_leader()
    for observer in (4, 5):
        catch_up(context, observer)
    context.propose("a")
    context.step()
    fetch_as(context, 5)
    commit(context)
    start_reassignment(context, 1, 2, 3, 4, 5)
    assert voters(context) == (1, 2, 3, 5)


def test_r3_of_equally_caught_up_targets_the_lowest_id_is_added() -> None:
    context = committed_leader()
    for observer in (5, 4):
        catch_up(context, observer)
    start_reassignment(context, 1, 2, 3, 4, 5)
    assert voters(context) == (1, 2, 3, 4)


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
    """A voter is added unless more must be removed than added; the leader is not removed first."""
    context = committed_leader()
    for observer in (4, 5, 6):
        catch_up(context, observer)
    start_reassignment(context, *targets)
    sets = [voter_set.ids for _, voter_set in context.core.log.voters.entries]
    assert next(ids for ids in sets if ids != (1, 2, 3)) == first_step


@pytest.mark.parametrize(
    ("round_ms", "added"), [(ELECTION_TIMEOUT_MS - 1, True), (ELECTION_TIMEOUT_MS, False)]
)
def test_r4_a_round_must_take_less_than_the_election_timeout(round_ms: int, added: bool) -> None:
    context = committed_leader()
    fetch_as(context, 4, behind=5)
    context.wait(round_ms)
    fetch_as(context, 4)
    start_reassignment(context, 1, 2, 3, 4)
    assert voters(context) == ((1, 2, 3, 4) if added else (1, 2, 3))


def test_r4_one_fetch_behind_the_log_end_is_no_round() -> None:
    context = committed_leader()
    fetch_as(context, 4, behind=1)
    start_reassignment(context, 1, 2, 3, 4)
    assert voters(context) == (1, 2, 3)
    fetch_as(context, 4, behind=1)  # the log end at its first fetch
    assert voters(context) == (1, 2, 3, 4)


def test_r4_a_fetch_at_the_log_end_has_caught_up() -> None:
    """A round would have nothing to fetch."""
    context = committed_leader()
    fetch_as(context, 4)
    assert context.core.add_voter("add", Voter(key(4)), context.now) == ErrorCode.NONE


def test_r4_the_time_that_a_fetch_is_held_does_not_count() -> None:
    """Without new records each fetch is held for max_wait_ms, here longer than a round may take."""
    context = committed_leader(config=CONFIG.replace(election_timeout_ms=HELD_MS // 5))
    for _ in range(3):
        fetch_as(context, 4, max_wait_ms=HELD_MS)
        assert is_caught_up(context, 4)
        context.wait(HELD_MS)
        assert is_caught_up(context, 4)


def test_r4_a_round_begins_when_a_held_fetch_is_answered() -> None:
    """The observer has the new record within the limit, counted from the response."""
    context = committed_leader(config=CONFIG.replace(election_timeout_ms=HELD_MS // 5))
    fetch_as(context, 4, max_wait_ms=HELD_MS)
    context.wait(HELD_MS // 2)
    context.propose("a")
    context.step()
    assert is_caught_up(context, 4)
    context.wait(HELD_MS // 5 - 1)
    assert is_caught_up(context, 4)
    fetch_as(context, 4, max_wait_ms=HELD_MS)
    assert is_caught_up(context, 4)


def test_r4_an_observer_that_falls_behind_is_not_added() -> None:
    """It keeps fetching, but lacks records that are older than an election timeout."""
    context = committed_leader()
    fetch_as(context, 4)
    for count in range(4):
        assert is_caught_up(context, 4) is (count < 2)
        context.propose("a")
        context.step()
        fetch_as(context, 4, behind=count + 1)
        context.wait(ELECTION_TIMEOUT_MS // 2)
    fetch_as(context, 4)
    assert not is_caught_up(context, 4)  # the round took too long
    fetch_as(context, 4)
    assert is_caught_up(context, 4)


def test_r4_a_fetch_short_of_the_rounds_end_ends_no_round() -> None:
    context = committed_leader()
    fetch_as(context, 4, behind=5)
    fetch_as(context, 4, behind=1)
    start_reassignment(context, 1, 2, 3, 4)
    assert voters(context) == (1, 2, 3)


@pytest.mark.parametrize(
    ("silent_ms", "added"), [(FETCH_TIMEOUT_MS - 1, True), (FETCH_TIMEOUT_MS, False)]
)
def test_r4_an_observer_that_stopped_fetching_is_not_added(silent_ms: int, added: bool) -> None:
    context = committed_leader()
    catch_up(context, 4)
    context.wait(silent_ms)
    error = context.core.add_voter("add", Voter(key(4)), context.now)
    assert error == (ErrorCode.NONE if added else ErrorCode.REQUEST_TIMED_OUT)


def stop_when_caught_up(context: SingleCore, observer: int) -> None:
    """The observer's fetch at the log end is held and gets no records; it fetches no more."""
    fetch_as(context, observer)
    fetch_as(context, observer, max_wait_ms=HELD_MS)
    context.wait(HELD_MS)


def test_r4_an_observer_that_returns_far_behind_is_not_added() -> None:
    """The log has grown meanwhile; the observer becomes a voter after a short round."""
    context = committed_leader()
    start_reassignment(context, 1, 2, 3, 4)
    context.core.new_voter = lambda _: None  # the step waits
    stop_when_caught_up(context, 4)
    context.propose("many", 1000)
    context.step()
    context.core.new_voter = Voter
    # The leader keeps its majority.
    for _ in range(3 * ELECTION_TIMEOUT_MS // FETCH_TIMEOUT_MS + 1):
        context.wait(FETCH_TIMEOUT_MS - 1)
        commit(context)
    fetch_as(context, 4, behind=1000)
    assert (voters(context), awaited_targets(context)) == ((1, 2, 3), (4,))
    fetch_as(context, 4)
    assert voters(context) == (1, 2, 3, 4)


@pytest.mark.parametrize("by_chunk", [False, True], ids=["by fetch", "by chunk"])
def test_r4_an_observer_that_needs_a_snapshot_is_not_added(by_chunk: bool) -> None:
    """Only a snapshot has its next records."""
    context = committed_leader()
    stop_when_caught_up(context, 4)
    last = context.core.log.end
    context.propose("many", 1000)
    context.step()
    for _ in range(3 * ELECTION_TIMEOUT_MS // FETCH_TIMEOUT_MS + 1):
        context.wait(FETCH_TIMEOUT_MS - 1)
        commit(context)
    snapshot = OffsetAndEpoch(context.core.log.high_watermark, context.core.election.epoch)
    context.step(SnapshotTaken(snapshot))
    if by_chunk:
        context.ask(SnapshotFetch("cluster", key(4), snapshot.epoch, snapshot, 0, 1000), channel=4)
    else:
        context.ask(context.fetch(4, offset=last, last_epoch=snapshot.epoch, replica=key(4)))
    start_reassignment(context, 1, 2, 3, 4)
    assert (voters(context), awaited_targets(context)) == ((1, 2, 3), (4,))


@pytest.mark.parametrize(
    ("silent_ms", "added"), [(FETCH_TIMEOUT_MS - 1, True), (FETCH_TIMEOUT_MS, False)]
)
def test_r4_the_step_waits_for_a_target_that_stopped_fetching(silent_ms: int, added: bool) -> None:
    context = committed_leader()
    catch_up(context, 4)
    context.wait(silent_ms)
    start_reassignment(context, 1, 2, 3, 4)
    assert (4 in voters(context)) is added
    assert awaited_targets(context) == (() if added else (4,))


def test_r4_a_waiting_step_changes_nothing_and_lists_its_targets() -> None:
    """No voter is removed meanwhile; a caught-up target is added at once."""
    context = committed_leader()
    assert awaited_targets(context) == ()
    start_reassignment(context, 1, 4, 5)
    assert voters(context) == (1, 2, 3)
    assert awaited_targets(context) == (4, 5)
    end = context.core.log.end
    catch_up(context, 7)
    commit(context)
    assert (voters(context), context.core.log.end) == ((1, 2, 3), end)
    catch_up(context, 5)
    assert voters(context) == (1, 2, 3, 5)
    assert awaited_targets(context) == ()  # the step waits for the commit, not for a replica


def test_r2_the_step_waits_for_a_target_without_known_endpoints() -> None:
    """It has caught up but not registered, so no voter could reach it."""
    context = committed_leader()
    context.core.new_voter = lambda _: None
    catch_up(context, 4)
    start_reassignment(context, 1, 2, 3, 4)
    assert (voters(context), awaited_targets(context)) == ((1, 2, 3), (4,))
    context.core.new_voter = Voter
    catch_up(context, 4)
    assert 4 in voters(context)


@pytest.mark.parametrize(
    "added",
    [Voter(ReplicaKey(4)), Voter(key(4), (), 0, 0), Voter(key(4), (), 2, 2)],
    ids=["no directory", "level 0", "level 2"],
)
def test_r11_no_step_lowers_kraft_version(added: Voter) -> None:
    """The step waits for a target that has a directory id and supports the level."""
    context = committed_leader()
    context.core.new_voter = lambda _: added
    catch_up(context, 4)
    start_reassignment(context, 1, 2, 3, 4)
    assert (voters(context), awaited_targets(context)) == ((1, 2, 3), (4,))
    assert context.core.log.voter_set.kraft_version == 1


def test_r2_two_observers_with_the_targets_id_block_the_step() -> None:
    context = committed_leader()
    catch_up(context, 4)
    fetch_as(context, 4, replica=OTHER_DIRECTORY)
    start_reassignment(context, 1, 2, 3, 4)
    assert voters(context) == (1, 2, 3)
    assert awaited_targets(context) == (4,)
    context.wait(FETCH_TIMEOUT_MS - 1)
    catch_up(context, 4)
    commit(context)
    context.wait(1)
    catch_up(context, 4)
    assert voters(context) == (1, 2, 3, 4)
    added = context.core.log.voter_set.voter(4)
    assert added is not None
    assert added.key == key(4)
