"""The number of open files is bounded, and pinned files do not slow the cache."""

from __future__ import annotations

import errno
from collections import deque
from typing import TYPE_CHECKING

import pytest

from kraftlog.errors import DiskFullError
from kraftlog.storage.disk import NOT_OPEN, Disk, Handle, HandleCache
from kraftlog_simulator.files import MemoryFiles
from tests.storage.making import FOLDER, fill, new_disk, open_log_on

if TYPE_CHECKING:
    from typing import Any

LIMIT = 10


class CountedQueue(deque[Handle]):
    """Counts the scanned handles."""

    scanned = 0

    def popleft(self) -> Handle:
        self.scanned += 1
        return super().popleft()


def make_cache(count: int) -> tuple[HandleCache, list[Handle], Any]:
    files = MemoryFiles()
    cache = HandleCache(files, LIMIT)
    cache._queue = queue = CountedQueue()
    handles = [Handle(cache, f"file-{number}") for number in range(count)]
    for handle in handles:
        handle.create()
    return cache, handles, queue


def test_open_files_stay_within_the_limit() -> None:
    cache, handles, _ = make_cache(100)
    assert cache.open_count == LIMIT
    assert [handle.fd != NOT_OPEN for handle in handles] == [False] * 90 + [True] * 10


def test_a_thousand_pinned_files_are_not_scanned_repeatedly() -> None:
    cache, handles, queue = make_cache(1000)
    queue.scanned = 0
    for handle in handles:
        handle.pin()
    assert cache.open_count == 1000, "a pinned file is not closed, even above the limit"
    assert queue.scanned <= 3 * len(handles)
    for handle in handles:
        handle.unpin()
    assert cache.open_count == LIMIT
    assert queue.scanned <= 3 * len(handles)


def test_an_unpinned_file_can_be_closed_again() -> None:
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


class FewDescriptors(MemoryFiles):
    """The files of a process that may have only `max_open` files open."""

    max_open = LIMIT

    def open(self, path: str, *, create: bool = False, write: bool = True) -> int:
        if self.open_handles() >= self.max_open:
            raise OSError(errno.EMFILE, "Too many open files", path)
        return super().open(path, create=create, write=write)


def test_without_descriptors_another_file_is_closed() -> None:
    cache = HandleCache(FewDescriptors(), 10 * LIMIT)
    handles = [Handle(cache, f"file-{number}") for number in range(2 * LIMIT)]
    for handle in handles:
        handle.create()
    assert cache.open_count == LIMIT
    assert handles[-1].fd != NOT_OPEN


def test_a_lack_of_descriptors_does_not_take_the_disk_offline() -> None:
    """The operation fails as on a full disk, and may be retried."""
    files = FewDescriptors()
    disk = Disk(files, HandleCache(files, 10 * LIMIT))
    handles = [disk.handle(f"file-{number}") for number in range(LIMIT + 1)]
    for handle in handles[:LIMIT]:
        handle.create()
        handle.pin()
    with pytest.raises(OSError, match="Too many open files") as raised:
        handles[-1].create()
    assert isinstance(disk.fail_unless_full("opening", raised.value), DiskFullError)
    assert disk.failure is None
    disk.check()
    handles[0].unpin()
    handles[-1].create()


def test_a_flush_without_descriptors_is_retried() -> None:
    """No sync has failed, so nothing is lost."""
    files = FewDescriptors()
    files.max_open = 100
    files.make_folder("/data")
    files.make_folder(FOLDER)
    disk = new_disk(files)
    log, _ = open_log_on(disk)
    fill(log, 20)
    job = log.flush_job()
    assert job is not None
    files.max_open = 0
    job.run(files)
    with pytest.raises(DiskFullError):
        log.flushed(job)
    assert (log.recovery_point, disk.failure) == (0, None)
    files.max_open = 100
    log.flush()
    assert log.recovery_point == log.end_offset > 0
