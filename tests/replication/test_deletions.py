"""DeleteRecords waits for the log starts of all replicas that are alive, as in Kafka.

A V and a number cite a rule of tests/rules.toml, a C and a number a situation of
tests/checklist.toml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.errors import ErrorCode
from tests.replication.broker import MAX_WAIT_MS, TIMEOUT_MS
from tests.replication.cluster import Cluster
from tests.replication.test_fetching import LONG_MS, two_replicas

if TYPE_CHECKING:
    from tests.replication.broker import PendingResponse

TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT


def outcome(deleted: PendingResponse) -> tuple[int | None, int]:
    return deleted.outcome, deleted.low_watermark


def test_v6_followers_follow_the_leaders_log_start() -> None:
    """DeleteRecords on the leader moves the start of its followers' logs."""
    cluster = two_replicas("1:abcd", "1:abcd")
    deleted = cluster[1].delete_records(3)
    cluster.settle()
    assert outcome(deleted) == (0, 3)
    cluster.pass_ms(MAX_WAIT_MS)
    assert (cluster[2].partition.start, cluster[2].log.start) == (3, 3)


def test_v6_log_start_is_never_past_the_followers_end() -> None:
    """C189: a lagging follower empties its log, and continues at the leader's log start."""
    cluster = Cluster({1: "1:abcd", 2: "1:ab"}, isr=(1,))
    cluster[2].holds_writes = True
    cluster.settle()
    cluster[1].delete_records(4)
    cluster[1].produce("e")
    cluster.settle()
    cluster[2].write()
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    assert cluster[2].partition.start == 4
    assert cluster.logs() == ["1:e", "1:e"]


# The response ------------------------------------------------------------------------------------


def test_response_waits_for_the_followers_log_start() -> None:
    cluster = two_replicas("1:abcd", "1:abcd")
    deleted = cluster[1].delete_records(3)
    cluster.run_turns()
    assert outcome(deleted) == (None, 0), "the follower does not know of the deletion"
    cluster.settle()
    assert outcome(deleted) == (0, 3)


def test_response_names_the_lowest_log_start_after_the_timeout() -> None:
    """The leader has deleted the records nevertheless."""
    cluster = two_replicas("1:abcd", "1:abcd")
    cluster.isolate(2)
    deleted = cluster[1].delete_records(3)
    cluster.run_turns()
    cluster.pass_ms(TIMEOUT_MS - 1)
    assert outcome(deleted) == (None, 0)
    cluster.pass_ms(1)
    assert outcome(deleted) == (TIMED_OUT, 0)
    assert cluster[1].partition.start == 3


def test_repeated_deletion_waits_for_the_followers_too() -> None:
    cluster = two_replicas("1:abcd", "1:abcd")
    cluster.isolate(2)
    cluster[1].delete_records(3, timeout_ms=1)
    cluster.run_turns()
    cluster.pass_ms(1)
    repeated = cluster[1].delete_records(3)
    cluster.run_turns()
    assert outcome(repeated) == (None, 0)
    cluster.heal()
    cluster.pass_ms(LONG_MS)
    assert outcome(repeated) == (0, 3)


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_with_a_timeout_of_zero_or_less_the_deletion_only_starts(
    timeout_ms: int,
) -> None:
    cluster = two_replicas("1:abcd", "1:abcd")
    deleted = cluster[1].delete_records(3, timeout_ms)
    cluster.run_turns()
    cluster.advance(0)
    assert deleted.outcome == TIMED_OUT
    cluster.settle()
    assert cluster[2].partition.start == 3


def test_fenced_follower_is_not_waited_for() -> None:
    cluster = two_replicas("1:abcd", "1:abcd")
    cluster.isolate(2)
    deleted = cluster[1].delete_records(3)
    cluster.run_turns()
    assert outcome(deleted) == (None, 0)
    cluster.fence(2)
    assert outcome(deleted) == (0, 3)


def test_removed_replica_is_not_waited_for() -> None:
    cluster = Cluster(dict.fromkeys((1, 2, 3), "1:abcd"))
    cluster.settle()
    cluster.isolate(3)
    deleted = cluster[1].delete_records(3)
    cluster.settle()
    assert outcome(deleted) == (None, 0)
    cluster.reassign((1,), (1,))
    assert outcome(deleted) == (0, 3)


def test_v6_deletion_fails_when_another_broker_leads() -> None:
    cluster = two_replicas("1:abcd", "1:abcd")
    cluster.isolate(2)
    deleted = cluster[1].delete_records(3)
    cluster.run_turns()
    cluster.elect(2, (1, 2))
    assert outcome(deleted) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_deletion_wakes_no_fetch_of_a_consumer() -> None:
    """The new log start completes only the waiting fetches of followers."""
    cluster = two_replicas("1:abcd", "1:abcd")
    waiting = cluster[1].fetch(4, max_wait_ms=MAX_WAIT_MS)
    cluster[1].delete_records(3)
    cluster.settle()
    assert waiting.response is None
