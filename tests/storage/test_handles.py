"""The cache of open files: bounded, and its work does not grow with what is pinned."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kraftlog.simulator.files import MemoryFiles
from kraftlog.storage.disk import NOT_OPEN, Handle, HandleCache

if TYPE_CHECKING:
    from typing import Any

LIMIT = 10


class CountedQueue(deque[Handle]):
    """Counts how many handles were looked at."""

    looks = 0

    def popleft(self) -> Handle:
        self.looks += 1
        return super().popleft()


def make_cache(count: int) -> tuple[HandleCache, list[Handle], Any]:
    files = MemoryFiles()
    cache = HandleCache(files, LIMIT)
    cache._open = queue = CountedQueue()
    handles = [Handle(cache, f"file-{number}") for number in range(count)]
    for handle in handles:
        handle.create()
    return cache, handles, queue


def test_no_more_files_are_open_than_the_limit() -> None:
    cache, handles, _ = make_cache(100)
    assert cache.open_count == LIMIT
    assert [handle.fd != NOT_OPEN for handle in handles] == [False] * 90 + [True] * 10


def test_a_thousand_pinned_files_are_not_passed_over_again_and_again() -> None:
    cache, handles, queue = make_cache(1000)
    queue.looks = 0
    for handle in handles:
        handle.pin()
    assert cache.open_count == 1000, "a pinned file is not closed, whatever the limit is"
    assert queue.looks <= 3 * len(handles)
    for handle in handles:
        handle.unpin()
    assert cache.open_count == LIMIT
    assert queue.looks <= 3 * len(handles)


def test_an_unpinned_file_is_closed_in_its_turn() -> None:
    cache, handles, _ = make_cache(LIMIT)
    handles[0].pin()
    others = [Handle(cache, f"other-{number}") for number in range(LIMIT)]
    for other in others:
        other.create()
    assert handles[0].fd != NOT_OPEN
    handles[0].unpin()
    for other in others:
        other.use()
    more = [Handle(cache, f"more-{number}") for number in range(2 * LIMIT)]
    for other in more:
        other.create()
    assert handles[0].fd == NOT_OPEN
    assert cache.open_count == LIMIT
