"""R9: the boot timestamp survives a crash, and a damaged file does not stop a start."""

from __future__ import annotations

import pytest

from kraftlog.storage import boot_timestamp
from kraftlog_simulator.files import MemoryFiles


def folder_with(content: bytes | None) -> MemoryFiles:
    files = MemoryFiles()
    files.make_folder("d")
    if content is not None:
        files.make_file(f"d/{boot_timestamp.NAME}", content)
    return files


def test_r9_the_stored_boot_timestamp_is_read_again() -> None:
    files = folder_with(None)
    assert boot_timestamp.load(files, "d") == boot_timestamp.NONE
    for at_ms in (0, 1_795_000_000_000):
        boot_timestamp.store(files, "d", at_ms)
        assert boot_timestamp.load(files, "d") == at_ms


@pytest.mark.parametrize("content", [b"", b"-5\n", b"x", b"\xff\xfe", b"9" * 40], ids=repr)
def test_r9_a_damaged_boot_timestamp_counts_as_none(content: bytes) -> None:
    assert boot_timestamp.load(folder_with(content), "d") == boot_timestamp.NONE
