"""The simulator's files behave like those of the operating system, and fail as a disk does."""

from __future__ import annotations

import errno
from random import Random
from typing import TYPE_CHECKING

import pytest

from kraftlog.server.files import OsFiles
from kraftlog.storage.disk import read_whole, write_atomically, write_whole
from kraftlog_simulator.files import Fault, MemoryFiles, PowerLost

if TYPE_CHECKING:
    from pathlib import Path

    from kraftlog.ports.files import Files


@pytest.fixture(params=["real", "memory"])
def file_system(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    """A file system and an empty directory in it."""
    if request.param == "real":
        return OsFiles(), str(tmp_path)
    files = MemoryFiles()
    files.make_folder("/here")
    return files, "/here"


def test_both_file_systems_behave_the_same(file_system: tuple[Files, str]) -> None:
    files, folder = file_system
    path = f"{folder}/file"
    assert not files.exists(path)
    with pytest.raises(FileNotFoundError):
        files.open(path)
    with pytest.raises(FileNotFoundError):
        files.list(f"{folder}/nowhere")
    fd = files.open(path, create=True)
    assert files.pwritev(fd, [b"abc", bytearray(b"def"), memoryview(b"ghi")], 0) == 9
    assert files.pwritev(fd, [b"XY"], 4) == 2
    assert files.pwritev(fd, [b"end"], 12) == 3
    assert files.pread(fd, 100, 0) == b"abcdXYghi\x00\x00\x00end"
    buffers = [bytearray(4), bytearray(20)]
    assert files.preadv(fd, buffers, 2) == 13
    assert bytes(buffers[0]) == b"cdXY"
    assert bytes(buffers[1]) == b"ghi\x00\x00\x00end" + bytes(11)
    assert (files.size(fd), files.size_of(path)) == (15, 15)
    files.allocate(fd, 15, 1 << 16)
    assert files.size(fd) == 15
    files.truncate(fd, 3)
    files.truncate(fd, 3)
    files.sync(fd)
    files.forget_cached(fd)
    assert files.pread(fd, 100, 0) == b"abc"
    files.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.size(fd)
    reading = files.open(path, write=False)
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.pwritev(reading, [b"x"], 0)
    files.rename(path, f"{folder}/other")
    assert files.pread(reading, 100, 0) == b"abc"
    files.unlink(f"{folder}/other")
    assert files.pread(reading, 100, 0) == b"abc"
    files.close(reading)
    with pytest.raises(FileNotFoundError):
        files.unlink(path)
    assert files.list(folder) == []


def test_a_file_system_reports_its_space(file_system: tuple[Files, str]) -> None:
    files, folder = file_system
    total, usable = files.space(folder)
    assert 0 < usable <= total


def test_directories_behave_the_same(file_system: tuple[Files, str]) -> None:
    files, folder = file_system
    files.make_folder(f"{folder}/a")
    with pytest.raises(FileExistsError):
        files.make_folder(f"{folder}/a")
    write_whole(files, f"{folder}/a/x", b"1")
    assert files.modified_ms(f"{folder}/a/x") >= 0
    with pytest.raises(OSError, match="not empty"):
        files.remove_folder(f"{folder}/a")
    files.rename(f"{folder}/a", f"{folder}/b")
    files.sync_folder(folder)
    files.sync_all(folder)
    assert read_whole(files, f"{folder}/b/x") == b"1"
    files.unlink(f"{folder}/b/x")
    files.remove_folder(f"{folder}/b")
    assert files.list(folder) == []


def test_a_lock_excludes_another_process(tmp_path: Path) -> None:
    import subprocess
    import sys

    files = OsFiles()
    fd = files.lock(f"{tmp_path}/.lock")
    other = (
        "import sys; from kraftlog.server.files import OsFiles\n"
        "try: OsFiles().lock(sys.argv[1])\n"
        "except BlockingIOError: print('kept out')\n"
    )
    command = [sys.executable, "-c", other, f"{tmp_path}/.lock"]
    assert (
        subprocess.run(command, check=True, capture_output=True, text=True).stdout == "kept out\n"
    )
    files.close(fd)
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == ""


def test_unsynced_data_is_lost_in_a_power_loss() -> None:
    files = MemoryFiles()
    fd = files.open("/f", create=True)
    files.sync_folder("/")
    files.pwritev(fd, [b"kept"], 0)
    files.sync(fd)
    files.pwritev(fd, [b"lost"], 4)
    files.open("/g", create=True)
    files.power_loss()
    assert files.list("/") == ["f"]
    assert files.bytes_of("/f") == b"kept"


def test_unsynced_data_may_survive_in_part() -> None:
    seen = set()
    for seed in range(60):
        files = MemoryFiles()
        files.make_file("/f", b"")
        fd = files.open("/f")
        files.pwritev(fd, [b"ab"], 0)
        files.pwritev(fd, [b"cd"], 2)
        files.power_loss(Random(seed))
        seen.add(files.bytes_of("/f"))
    assert {b"", b"ab", b"abcd", b"\0\0cd"} <= seen
    assert any(len(content) in {1, 3} for content in seen), "torn writes"


def test_directory_changes_become_durable_in_order() -> None:
    seen = set()
    for seed in range(60):
        files = MemoryFiles()
        for name in "abc":
            files.open(f"/{name}", create=True)
        files.rename("/a", "/d")
        files.power_loss(Random(seed))
        seen.add("".join(files.list("/")))
    assert seen == {"", "a", "ab", "abc", "bcd"}


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_q4_an_atomic_write_leaves_the_old_or_the_new(seed: int | None) -> None:
    contents, operation = set(), 0
    while True:
        files = MemoryFiles()
        files.make_file("/f", b"old")
        files.stop_before = operation
        try:
            write_atomically(files, "/f", b"new and longer")
        except PowerLost:
            files.power_loss(Random(seed * 100 + operation) if seed is not None else None)
            contents.add(files.bytes_of("/f"))
            operation += 1
        else:
            break
    assert contents <= {b"old", b"new and longer"}
    assert b"old" in contents
    files.power_loss()
    assert files.bytes_of("/f") == b"new and longer"


def test_overwriting_a_file_is_not_atomic() -> None:
    """A write that is not atomic is detected.

    So `test_q4_an_atomic_write_leaves_the_old_or_the_new` can fail.
    """
    files = MemoryFiles()
    files.make_file("/f", b"old")
    files.stop_before = 2  # after open and truncate
    with pytest.raises(PowerLost):
        write_whole(files, "/f", b"new and longer")
    files.write_back()
    files.power_loss()
    assert files.bytes_of("/f") not in {b"old", b"new and longer"}


def test_a_failed_sync_loses_pages_for_good() -> None:
    files = MemoryFiles()
    fd = files.open("/f", create=True)
    files.sync_folder("/")
    files.pwritev(fd, [b"abc"], 0)
    files.faults = [Fault("sync")]
    with pytest.raises(OSError, match="Input/output"):
        files.sync(fd)
    files.sync(fd)  # succeeds, as no page is dirty
    assert files.pread(fd, 10, 0) == b"abc"
    files.forget_cached(fd)
    assert files.pread(fd, 10, 0) == b""


def test_faults_occur_at_the_planned_operations() -> None:
    files = MemoryFiles()
    a, b = files.open("/a", create=True), files.open("/b", create=True)
    files.faults = [Fault("pwritev", errno.EIO, "/b", skip=1, times=1, partial=2)]
    assert files.pwritev(a, [b"1234"], 0) == 4
    assert files.pwritev(b, [b"1234"], 0) == 4
    with pytest.raises(OSError, match="Input/output"):
        files.pwritev(b, [b"5678"], 4)
    assert files.bytes_of("/b") == b"123456"
    assert files.pwritev(b, [b"78"], 6) == 2


def test_a_full_disk_writes_what_fits() -> None:
    files = MemoryFiles(capacity_bytes=6)
    fd = files.open("/a", create=True)
    assert files.pwritev(fd, [b"1234", b"5678"], 0) == 6
    with pytest.raises(OSError, match="No space"):
        files.pwritev(fd, [b"78"], 6)
    assert files.pwritev(fd, [b"xx"], 0) == 2
    with pytest.raises(OSError, match="No space"):
        files.allocate(fd, 6, 1)
