"""Each rule for clients of partitions has a history that violates it, and one that does not."""

from __future__ import annotations

import pytest

from kraftlog.simulator.checkers.partition_history import (
    UNKNOWN_OFFSET,
    PartitionHistory,
    Write,
)

P, Q = ("t", 0), ("t", 1)


def history(*values: int, once: bool = True, safe: bool = True) -> PartitionHistory:
    found = PartitionHistory()
    for value in values:
        found.sent(Write(value, "producer", P, once, safe))
    return found


def test_s7_a_good_history_passes() -> None:
    good = history(1, 2, 3, 4)
    good.acknowledged(1, 0)
    good.polled("consumer", P, 0, [(0, 1)], 1)
    good.acknowledged(3, UNKNOWN_OFFSET)
    good.refused(4)
    good.polled("consumer", P, 1, [], 1)
    good.polled("consumer", P, 1, [(1, 2), (3, 3)], 4)
    assert good.finish(P, 0, [(0, 1), (1, 2), (3, 3)]) == []


def test_s5_a_lost_acknowledged_write_is_a_violation() -> None:
    lost = history(1, 2)
    lost.acknowledged(1, 0)
    lost.acknowledged(2, UNKNOWN_OFFSET)
    assert lost.finish(P, 0, []) == [
        "lost: value 1 was acknowledged at 0 of ('t', 0), which has it at []",
        "lost: value 2 was acknowledged somewhere of ('t', 0), which has it at []",
        "lost: value 1 was seen at 0 of ('t', 0): now None",
    ]


def test_s5_writes_before_the_log_start_are_not_lost() -> None:
    deleted = history(1)
    deleted.acknowledged(1, 0)
    assert deleted.finish(P, 1, []) == []


def test_s5_a_write_to_the_leader_alone_may_be_lost() -> None:
    unsafe = history(1, 2, safe=False)
    unsafe.acknowledged(1, 0)
    unsafe.acknowledged(2, 0)
    assert unsafe.finish(P, 0, [(0, 2)]) == []


def test_a_duplicate_of_an_idempotent_producer_is_a_violation() -> None:
    twice = history(1)
    assert twice.finish(P, 0, [(0, 1), (1, 1)]) == ["duplicate: value 1 is at [0, 1] of ('t', 0)"]
    polled = history(1)
    polled.polled("consumer", P, 0, [(0, 1), (1, 1)], 2)
    assert polled.violations == ["duplicate: value 1 is at 0 and at 1 of ('t', 0)"]
    assert history(1, once=False).finish(P, 0, [(0, 1), (1, 1)]) == []


def test_s7_two_records_at_one_offset_are_a_violation() -> None:
    two = history(1, 2)
    two.polled("one", P, 0, [(0, 1)], 1)
    two.polled("other", P, 0, [(0, 2)], 1)
    assert two.violations == ["inconsistent: ('t', 0) had 1 at 0, and now 2"]


def test_s7_a_lost_record_that_was_read_is_a_violation() -> None:
    gone = history(1, 2)
    gone.polled("consumer", P, 0, [(0, 1)], 1)
    assert gone.finish(P, 0, [(0, 2)]) == [
        "lost: value 1 was seen at 0 of ('t', 0): now 2",
    ]


@pytest.mark.parametrize("partition", [P, Q])
def test_s9_a_record_that_nobody_wrote_there_is_a_violation(partition: tuple[str, int]) -> None:
    phantom = history(1)
    phantom.polled("consumer", partition, 0, [(0, 1 if partition == Q else 7)], 1)
    assert [it.split(":")[0] for it in phantom.violations] == ["phantom"]


def test_the_record_of_a_refused_write_is_a_violation() -> None:
    refused = history(1)
    refused.refused(1)
    refused.polled("consumer", P, 0, [(0, 1)], 1)
    assert refused.violations == ["phantom: value 1, at 0 of ('t', 0), was refused"]
    later = history(1)
    later.polled("consumer", P, 0, [(0, 1)], 1)
    later.refused(1)
    assert later.violations == ["phantom: value 1 was read, and then refused"]


def test_a_poll_that_goes_back_is_a_violation() -> None:
    back = history(1, 2)
    back.polled("consumer", P, 0, [(1, 1), (0, 2)], 2)
    assert back.violations == ["nonmonotonic: consumer got 0 of ('t', 0) after 1"]


def test_a_producers_writes_out_of_order_are_a_violation() -> None:
    assert history(1, 2).finish(P, 0, [(0, 2), (1, 1)]) == [
        "nonmonotonic: value 2, at 0 of ('t', 0), was written after 1, at 1"
    ]


def test_v11_a_partition_added_again_has_another_log() -> None:
    """It need not have the records that were acknowledged in the removed one."""
    again = history(1, 2, 3)
    again.acknowledged(1, 0)
    again.polled("consumer", P, 0, [(0, 1), (1, 2)], 2)
    again.acknowledged(2, 0, first_epoch=4)
    again.polled("consumer", P, 0, [(0, 2)], 1, first_epoch=4)
    assert again.finish(P, 0, [(0, 2)], first_epoch=4) == []
    again.acknowledged(3, 1, first_epoch=4)
    assert again.finish(P, 0, [(0, 1)], first_epoch=4) == [
        "lost: value 2 was acknowledged at 0 of ('t', 0), which has it at []",
        "lost: value 3 was acknowledged at 1 of ('t', 0), which has it at []",
        "lost: value 2 was seen at 0 of ('t', 0): now 1",
        "lost: value 3 was seen at 1 of ('t', 0): now None",
    ]


def test_a_consumer_may_continue_at_the_start_after_a_deletion() -> None:
    deleted = history(1, 2, 3)
    deleted.polled("consumer", P, 0, [(0, 1)], 1)
    deleted.restarted("consumer", P, 2)
    deleted.polled("consumer", P, 2, [(2, 3)], 3)
    assert deleted.finish(P, 0, [(0, 1), (1, 2), (2, 3)]) == []


def test_a_skipped_record_is_a_violation() -> None:
    skipped = history(1, 2)
    skipped.polled("consumer", P, 0, [(1, 2)], 2)
    assert skipped.finish(P, 0, [(0, 1), (1, 2)]) == [
        "skipped: consumer went on at 2 of ('t', 0) without [0]"
    ]


def test_an_impossible_history_is_an_error_of_the_recorder() -> None:
    wrong = history(1)
    with pytest.raises(ValueError, match="not unique"):
        wrong.sent(Write(1, "producer", P, True, True))
    wrong.polled("consumer", P, 0, [], 0)
    with pytest.raises(ValueError, match="fetched from 1, not 0"):
        wrong.polled("consumer", P, 1, [], 1)
