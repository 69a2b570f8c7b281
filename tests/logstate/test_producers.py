"""Batches of idempotent and transactional producers are checked by the rules of Kafka's brokers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.errors import ErrorCode
from kraftlog.logstate.producers import (
    CompletedTransaction,
    Marker,
    ProducerState,
    RetainedBatch,
)
from kraftlog.records.header import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from kraftlog.types import ControlType

#: The largest sequence number.
MAX_SEQUENCE = 0x7FFFFFFF
#: All producers have begun after the log.
ANY = 0


def header(
    offset: int,
    count: int,
    sequence: int,
    *,
    epoch: int = 0,
    producer_id: int = 1,
    timestamp: int = 0,
    transactional: bool = False,
    control: bool = False,
) -> BatchHeader:
    attributes = TRANSACTIONAL_BIT * transactional + CONTROL_BIT * control
    return BatchHeader(
        offset,
        100,
        0,
        2,
        0,
        attributes,
        count - 1,
        timestamp,
        timestamp,
        producer_id,
        epoch,
        sequence,
        count,
    )


def state_after(*batches: BatchHeader) -> ProducerState:
    state = ProducerState()
    for batch in batches:
        assert state.check(batch, ANY) == ErrorCode.NONE
        state.apply(batch)
    return state


def test_sequences_must_be_consecutive() -> None:
    state = state_after(header(0, 3, 0), header(3, 2, 3))
    assert state.check(header(5, 1, 5), ANY) == ErrorCode.NONE
    assert state.check(header(5, 1, 6), ANY) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(header(5, 1, 0), ANY) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_to_0() -> None:
    state = ProducerState()
    state.apply(header(0, 3, MAX_SEQUENCE - 1))
    assert state.entries[1].last_sequence == 0
    assert state.check(header(3, 1, 1), ANY) == ErrorCode.NONE
    assert state.check(header(3, 3, MAX_SEQUENCE - 1), ANY) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    state = ProducerState()
    state.apply(header(0, 1, MAX_SEQUENCE))
    assert state.check(header(1, 1, 0), ANY) == ErrorCode.NONE


def test_the_last_five_batches_are_recognized_as_duplicates() -> None:
    batches = [header(10 * i, 10, 10 * i, timestamp=i) for i in range(7)]
    state = state_after(*batches)
    for number, batch in enumerate(batches):
        code = state.check(batch, ANY)
        if number < 2:
            assert code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        else:
            assert code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
            retained = state.duplicate_of(batch)
            assert retained == RetainedBatch(10 * number + 9, 10 * number + 9, 9, number)
            assert retained.first_offset == 10 * number
    assert state.check(header(70, 9, 60), ANY) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_starts_at_sequence_0_and_fences_the_old_one() -> None:
    state = state_after(header(0, 3, 0))
    assert state.check(header(3, 1, 3, epoch=1), ANY) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    state.apply(header(3, 1, 0, epoch=1))
    assert state.check(header(4, 1, 3), ANY) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert state.check(header(4, 1, 1, epoch=1), ANY) == ErrorCode.NONE
    assert len(state.entries[1].batches) == 1


@pytest.mark.parametrize(
    ("producer_id", "sequence", "code"),
    [
        (4, 0, ErrorCode.NONE),
        (4, 77, ErrorCode.NONE),
        (5, 0, ErrorCode.NONE),
        (5, 77, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (6, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_only_a_producer_that_may_be_forgotten_starts_anywhere(
    producer_id: int, sequence: int, code: int
) -> None:
    """Producers from 5 on have begun after the log: an earlier batch of theirs is still to come."""
    state = ProducerState()
    assert state.check(header(0, 1, sequence, producer_id=producer_id), known_from=5) == code


def test_an_expired_producer_and_earlier_ones_may_start_anywhere() -> None:
    state = ProducerState()
    for producer_id in (7, 9):
        state.apply(header(0, 1, 0, producer_id=producer_id, timestamp=producer_id))
    assert state.expire(8 + 10, 10) == [7]
    for expired in (state, state.copy()):
        assert expired.check(header(2, 1, 3, producer_id=7), known_from=5) == ErrorCode.NONE
        code = expired.check(header(2, 1, 3, producer_id=8), known_from=5)
        assert code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_a_marker_ends_a_transaction(kind: int) -> None:
    state = state_after(
        header(0, 2, 0, transactional=True), header(2, 2, 0, producer_id=2, transactional=True)
    )
    assert state.first_undecided() == state.first_unstable() == 0
    assert state.check(header(4, 1, 2), ANY) == ErrorCode.INVALID_TXN_STATE
    end = header(4, 1, -1, transactional=True, control=True)
    completed = state.apply(end, Marker(kind, 3))
    assert completed == CompletedTransaction(1, 0, 4, kind == ControlType.ABORT)
    assert state.stable_after(completed) == 2
    assert state.first_undecided() == 2
    assert state.first_unstable() == 0, "until the marker is replicated"
    state.high_watermark_moved(4)
    assert state.first_unstable() == 0
    state.high_watermark_moved(5)
    assert state.first_unstable() == 2
    assert state.check(header(5, 1, 2), ANY) == ErrorCode.NONE
    assert state.apply(end, Marker(kind, 3)) is None, "a repeated marker ends nothing"
    last = state.apply(
        header(6, 1, -1, producer_id=2, transactional=True, control=True), Marker(kind, 3)
    )
    assert last is not None
    assert state.stable_after(last) == 7
    assert state.first_undecided() == -1


def test_a_marker_may_begin_a_new_epoch() -> None:
    state = state_after(header(0, 1, 0, epoch=3, transactional=True))
    state.apply(
        header(1, 1, -1, epoch=4, transactional=True, control=True), Marker(ControlType.COMMIT, 5)
    )
    assert state.entries[1].batches == (), "a new epoch starts at sequence 0"
    assert state.check(header(2, 1, 0, epoch=4), ANY) == ErrorCode.NONE


def test_idle_producers_expire_unless_in_a_transaction() -> None:
    state = state_after(
        header(0, 1, 0, timestamp=100),
        header(1, 1, 0, producer_id=2, timestamp=100, transactional=True),
        header(2, 1, 0, producer_id=3, timestamp=101),
    )
    assert state.expire(1100, 1000) == [1]
    assert sorted(state.entries) == [2, 3]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.booleans()), max_size=20))
def test_a_check_changes_nothing_and_finds_gaps_and_duplicates(
    steps: list[tuple[int, int, bool]],
) -> None:
    """The retry of an accepted batch is a duplicate."""
    state, offset = ProducerState(), 0
    next_sequences: dict[int, int] = {}
    for producer_id, count, repeat in steps:
        sequence = next_sequences.get(producer_id, 0)
        batch = header(offset, count, sequence, producer_id=producer_id)
        before = state.copy()
        assert state.check(batch, ANY) == ErrorCode.NONE
        skipping = header(offset, count, sequence + 1, producer_id=producer_id)
        if producer_id in next_sequences:
            assert state.check(skipping, ANY) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert state == before
        state.apply(batch)
        assert state != before
        next_sequences[producer_id] = sequence + count
        offset += count
        if repeat:
            assert state.check(batch, ANY) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert {p: e.last_sequence + 1 for p, e in state.entries.items()} == next_sequences
