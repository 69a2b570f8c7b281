"""Q10, Q24: timeouts and backoffs, and their jitter between replicas."""

from __future__ import annotations

import pytest

from kraftlog.raft.config import RaftConfig
from kraftlog.raft.roles.unattached import election_delay
from tests.raft.single_core import (
    CONFIG,
    ELECTION_TIMEOUT_MS,
    SingleCore,
    candidate,
    leader,
    prospective,
    unattached,
)

SEEDS = range(40)
MAX_BACKOFF_MS = CONFIG.retry_backoff_max_ms


def with_seed(seed: int) -> RaftConfig:
    return CONFIG.replace(seed=seed)


def backoffs(failures: int) -> list[int]:
    return [unattached(config=with_seed(seed)).core.backoff(failures) for seed in SEEDS]


@pytest.mark.parametrize(
    ("failures", "bound"),
    [(0, 20), (1, 40), (2, 80), (5, 640), (6, MAX_BACKOFF_MS), (60, MAX_BACKOFF_MS)],
)
def test_q24_retry_delays_grow_exponentially_up_to_a_bound(failures: int, bound: int) -> None:
    delays_ms = backoffs(failures)
    assert bound // 2 <= min(delays_ms) <= max(delays_ms) <= bound
    assert max(delays_ms) > bound * 3 // 4


@pytest.mark.parametrize("failures", [0, 2, 6, 60])
def test_q24_retries_are_jittered(failures: int) -> None:
    """Replicas that lose a peer at the same time retry at different times."""
    assert len(set(backoffs(failures))) >= 8


def test_q24_the_jitter_of_a_replica_differs_from_retry_to_retry() -> None:
    core = unattached().core
    assert len({core.backoff(failures) for failures in range(20, 60)}) >= 20


def election_delays(attempt: int) -> list[int]:
    delays_ms = []
    for seed in SEEDS:
        core = unattached(config=with_seed(seed)).core
        core.attempt = attempt
        delays_ms.append(election_delay(core))
    return delays_ms


@pytest.mark.parametrize(
    ("attempt", "bound"), [(1, 100), (2, 200), (4, 800), (5, 1000), (50, 1000)]
)
def test_q10_the_backoff_grows_exponentially_up_to_a_bound(attempt: int, bound: int) -> None:
    delays_ms = election_delays(attempt)
    assert 1 <= min(delays_ms) <= max(delays_ms) <= bound
    assert max(delays_ms) > bound * 3 // 4


def test_q10_the_backoff_is_random() -> None:
    assert len(set(election_delays(4))) >= len(SEEDS) // 2


def candidate_timeout(config: RaftConfig) -> int:
    return candidate(config=config).ms_until("election")


def resigned_timeout(config: RaftConfig) -> int:
    context = leader(config=config)
    context.shut_down()
    return context.ms_until("election")


@pytest.mark.parametrize(
    "timeout",
    [
        lambda config: unattached(config=config).ms_until("election"),
        lambda config: prospective(config=config).ms_until("election"),
        candidate_timeout,
        resigned_timeout,
    ],
    ids=["unattached", "prospective", "candidate", "resigned"],
)
def test_q10_timeouts_are_random_between_one_and_two_election_timeouts(timeout: object) -> None:
    assert callable(timeout)
    delays_ms = [timeout(with_seed(seed)) for seed in SEEDS]
    assert ELECTION_TIMEOUT_MS <= min(delays_ms) < ELECTION_TIMEOUT_MS * 5 // 4
    assert ELECTION_TIMEOUT_MS * 7 // 4 < max(delays_ms) < 2 * ELECTION_TIMEOUT_MS
    assert len(set(delays_ms)) > len(SEEDS) // 2


def test_q24_the_first_search_for_a_leader_is_jittered() -> None:
    delays_ms = {SingleCore(config=with_seed(seed)).ms_until("discover") for seed in SEEDS}
    assert len(delays_ms) >= CONFIG.retry_backoff_ms // 2
    assert max(delays_ms) < CONFIG.retry_backoff_ms
