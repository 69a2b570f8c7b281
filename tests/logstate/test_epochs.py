"""Q7, Q19, V6: the cache of leader epochs agrees with a list of every record's epoch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.logstate.epochs import EpochCache

#: (distance to the previous epoch, number of records)
RUNS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5)), max_size=6)


def epochs_of_records(runs: list[tuple[int, int]]) -> list[int]:
    """The epoch of each record of a log."""
    epochs: list[int] = []
    epoch = -1
    for step, count in runs:
        epoch += step
        epochs += [epoch] * count
    return epochs


def cache_of(epochs: list[int], start: int = 0) -> EpochCache:
    cache = EpochCache()
    for offset in range(start, len(epochs)):
        cache.assign(epochs[offset], offset)
    return cache


@given(RUNS, st.integers(-1, 20))
def test_the_end_offset_is_the_start_of_the_next_epoch(
    runs: list[tuple[int, int]], epoch: int
) -> None:
    """C147, C148: an epoch without records ends where the epoch before it ends."""
    epochs = epochs_of_records(runs)
    cache = cache_of(epochs)
    end = cache.end_offset_for(epoch, len(epochs))
    if epoch == -1 or not epochs or epoch > epochs[-1]:
        assert end == (-1, -1)
        return
    not_above = [e for e in epochs if e <= epoch]
    later = [offset for offset, e in enumerate(epochs) if e > epoch]
    assert end == (not_above[-1] if not_above else epoch, later[0] if later else len(epochs))


@given(RUNS, st.data())
def test_truncation_removes_epochs_at_either_end(
    runs: list[tuple[int, int]], data: st.DataObject
) -> None:
    """C149: the remaining epochs are those of the remaining records."""
    epochs = epochs_of_records(runs)
    cache = cache_of(epochs)
    end = data.draw(st.integers(0, len(epochs)))
    start = data.draw(st.integers(0, end))
    cache.truncate_from_end(end)
    assert cache == cache_of(epochs[:end])
    cache.truncate_from_start(start)
    if start < end:
        assert cache == cache_of(epochs[:end], start)
    for offset in range(start, end):
        assert cache.epoch_at(offset) == epochs[offset]


def test_a_new_epoch_replaces_contradicting_ones() -> None:
    """C146: entries with an epoch or an offset that is not lower are removed."""
    cache = EpochCache([(1, 0), (2, 10), (4, 20)])
    assert not cache.assign(4, 25)
    assert cache.assign(5, 15)
    assert cache.entries() == [(1, 0), (2, 10), (5, 15)]
    assert cache.assign(2, 12)
    assert cache.entries() == [(1, 0), (2, 12)]
    assert cache.assign(3, 12)
    assert cache.entries() == [(1, 0), (3, 12)]
    with pytest.raises(ValueError, match="negative"):
        cache.assign(-1, 3)


def test_a_copy_is_independent() -> None:
    cache = EpochCache([(1, 0)])
    copy = cache.copy()
    copy.assign(2, 5)
    assert cache.entries() == [(1, 0)]
    assert cache != copy
    assert cache.latest == 1
    assert copy.clear()
    assert not copy.clear()
    assert copy.latest == -1
