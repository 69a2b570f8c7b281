"""Each rule for clients of partitions has a history that violates it, and one that does not."""

from __future__ import annotations

import pytest

from kraftlog_simulator.checkers.partition_history import (
    UNKNOWN_OFFSET,
    PartitionHistory,
    Write,
)

P, Q = ("t", 0), ("t", 1)


def history_of(*values: int, once: bool = True, safe: bool = True) -> PartitionHistory:
    history = PartitionHistory()
    for value in values:
        history.sent(Write(value, "producer", P, once, safe))
    return history


def test_s7_a_good_history_passes() -> None:
    history = history_of(1, 2, 3, 4)
    history.acknowledged(1, 0)
    history.polled("consumer", P, 0, [(0, 1)], 1)
    history.acknowledged(3, UNKNOWN_OFFSET)
    history.refused(4)
    history.polled("consumer", P, 1, [], 1)
    history.polled("consumer", P, 1, [(1, 2), (3, 3)], 4)
    assert history.finish(P, 0, [(0, 1), (1, 2), (3, 3)]) == []


def test_s5_a_lost_acknowledged_write_is_a_violation() -> None:
    history = history_of(1, 2)
    history.acknowledged(1, 0)
    history.acknowledged(2, UNKNOWN_OFFSET)
    assert history.finish(P, 0, []) == [
        "lost: value 1 was acknowledged at 0 of ('t', 0), which has it at []",
        "lost: value 2 was acknowledged somewhere of ('t', 0), which has it at []",
        "lost: value 1 was seen at 0 of ('t', 0): now None",
    ]


def test_s5_writes_before_the_log_start_are_not_lost() -> None:
    history = history_of(1)
    history.acknowledged(1, 0)
    assert history.finish(P, 1, []) == []


def test_s5_a_write_to_the_leader_alone_may_be_lost() -> None:
    history = history_of(1, 2, safe=False)
    history.acknowledged(1, 0)
    history.acknowledged(2, 0)
    assert history.finish(P, 0, [(0, 2)]) == []


def test_a_duplicate_of_an_idempotent_producer_is_a_violation() -> None:
    history = history_of(1)
    assert history.finish(P, 0, [(0, 1), (1, 1)]) == ["duplicate: value 1 is at [0, 1] of ('t', 0)"]
    polled = history_of(1)
    polled.polled("consumer", P, 0, [(0, 1), (1, 1)], 2)
    assert polled.violations == ["duplicate: value 1 is at 0 and at 1 of ('t', 0)"]
    assert history_of(1, once=False).finish(P, 0, [(0, 1), (1, 1)]) == []


def test_s7_two_records_at_one_offset_are_a_violation() -> None:
    history = history_of(1, 2)
    history.polled("one", P, 0, [(0, 1)], 1)
    history.polled("other", P, 0, [(0, 2)], 1)
    assert history.violations == ["inconsistent: ('t', 0) had 1 at 0, and now 2"]


def test_s7_a_lost_record_that_was_read_is_a_violation() -> None:
    history = history_of(1, 2)
    history.polled("consumer", P, 0, [(0, 1)], 1)
    assert history.finish(P, 0, [(0, 2)]) == [
        "lost: value 1 was seen at 0 of ('t', 0): now 2",
    ]


@pytest.mark.parametrize("partition", [P, Q])
def test_s9_a_record_that_no_client_wrote_there_is_a_violation(partition: tuple[str, int]) -> None:
    history = history_of(1)
    history.polled("consumer", partition, 0, [(0, 1 if partition == Q else 7)], 1)
    assert [violation.split(":")[0] for violation in history.violations] == ["phantom"]


def test_the_record_of_a_refused_write_is_a_violation() -> None:
    history = history_of(1)
    history.refused(1)
    history.polled("consumer", P, 0, [(0, 1)], 1)
    assert history.violations == ["phantom: value 1, at 0 of ('t', 0), was refused"]
    later = history_of(1)
    later.polled("consumer", P, 0, [(0, 1)], 1)
    later.refused(1)
    assert later.violations == ["phantom: value 1 was read, and then refused"]


def test_a_poll_that_goes_back_is_a_violation() -> None:
    history = history_of(1, 2)
    history.polled("consumer", P, 0, [(1, 1), (0, 2)], 2)
    assert history.violations == ["nonmonotonic: consumer got 0 of ('t', 0) after 1"]


def test_a_producers_writes_out_of_order_are_a_violation() -> None:
    assert history_of(1, 2).finish(P, 0, [(0, 2), (1, 1)]) == [
        "nonmonotonic: value 2, at 0 of ('t', 0), was written after 1, at 1"
    ]


def test_v11_a_partition_added_again_has_another_log() -> None:
    """It need not have the records that were acknowledged in the removed one."""
    history = history_of(1, 2, 3)
    history.acknowledged(1, 0)
    history.polled("consumer", P, 0, [(0, 1), (1, 2)], 2)
    history.acknowledged(2, 0, first_epoch=4)
    history.polled("consumer", P, 0, [(0, 2)], 1, first_epoch=4)
    assert history.finish(P, 0, [(0, 2)], first_epoch=4) == []
    history.acknowledged(3, 1, first_epoch=4)
    assert history.finish(P, 0, [(0, 1)], first_epoch=4) == [
        "lost: value 2 was acknowledged at 0 of ('t', 0), which has it at []",
        "lost: value 3 was acknowledged at 1 of ('t', 0), which has it at []",
        "lost: value 2 was seen at 0 of ('t', 0): now 1",
        "lost: value 3 was seen at 1 of ('t', 0): now None",
    ]


def test_a_consumer_may_continue_at_the_start_after_a_deletion() -> None:
    history = history_of(1, 2, 3)
    history.polled("consumer", P, 0, [(0, 1)], 1)
    history.restarted("consumer", P, 2)
    history.polled("consumer", P, 2, [(2, 3)], 3)
    assert history.finish(P, 0, [(0, 1), (1, 2), (2, 3)]) == []


def test_a_skipped_record_is_a_violation() -> None:
    history = history_of(1, 2)
    history.polled("consumer", P, 0, [(1, 2)], 2)
    assert history.finish(P, 0, [(0, 1), (1, 2)]) == [
        "skipped: consumer went on at 2 of ('t', 0) without [0]"
    ]


def test_an_impossible_history_is_an_error_of_the_recorder() -> None:
    history = history_of(1)
    with pytest.raises(ValueError, match="not unique"):
        history.sent(Write(1, "producer", P, True, True))
    history.polled("consumer", P, 0, [], 0)
    with pytest.raises(ValueError, match="fetched from 1, not 0"):
        history.polled("consumer", P, 1, [], 1)
