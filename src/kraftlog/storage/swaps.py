"""Replaces segments so that a crash at any instant loses nothing: Kafka's protocol.

New files are complete and durable under names that end in `.cleaned`. Then they are renamed to
`.swap`, each log file last; the old segments are deleted; the new files get their final names.
While a `.cleaned` exists the old files are valid; afterwards the new ones are.
"""

from __future__ import annotations

from kraftlog.records.walk import walk_file
from kraftlog.storage.disk import unlink_if_there
from kraftlog.storage.segment import INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.ports.files import Files

CLEANED, SWAP = ".cleaned", ".swap"
_ENDINGS = (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX)
_DIGITS = 20


def to_swap(files: Files, stem: str) -> None:
    """Rename the new files to `.swap`: from now on they are valid."""
    for ending in reversed(_ENDINGS):
        _rename(files, stem + ending + CLEANED, stem + ending + SWAP)


def to_segment(files: Files, stem: str) -> None:
    """Give the new files their final names, once the old ones are deleted."""
    for ending in _ENDINGS:
        _rename(files, stem + ending + SWAP, stem + ending)


def _rename(files: Files, old: str, new: str) -> None:
    if files.exists(old):  # the transaction index exists only if something was aborted
        files.rename(old, new)


def discard_cleaned(files: Files, stem: str) -> None:
    """Delete new files that will not be swapped in."""
    for ending in _ENDINGS:
        unlink_if_there(files, stem + ending + CLEANED)


def finish_swap(files: Files, folder: str) -> list[str]:
    """Complete an interrupted swap when a log is opened; return the `.swap` names that it used."""
    names = files.list(folder)
    swaps = [name for name in names if name.endswith(SWAP)]
    if not swaps:
        return []
    unfinished = [_base(name) for name in names if name.endswith(CLEANED)]
    if unfinished:
        # A .cleaned file marks these swap files as invalid, so they are deleted before it is.
        for name in [name for name in swaps if _base(name) >= min(unfinished)]:
            files.unlink(f"{folder}/{name}")
        swaps = [name for name in swaps if _base(name) < min(unfinished)]
    for name in swaps:
        if name.endswith(LOG + SWAP):
            _remove_replaced(files, folder, names, name)
    for base in sorted({_base(name) for name in swaps}):
        to_segment(files, f"{folder}/{base:020d}")
    files.sync_folder(folder)
    return swaps


def _remove_replaced(files: Files, folder: str, names: list[str], swap: str) -> None:
    """Delete the segments that a new one replaces, log files first: an index alone is harmless."""
    first, end = _base(swap), _end_offset(files, f"{folder}/{swap}")
    for name in sorted(names, key=lambda name: (_base(name), not name.endswith(LOG))):
        if name[_DIGITS:] in _ENDINGS and first <= _base(name) < max(end, first + 1):
            files.unlink(f"{folder}/{name}")


def _base(name: str) -> int:
    digits = name[:_DIGITS]
    return int(digits) if digits.isdecimal() else -1


def _end_offset(files: Files, path: str) -> int:
    end = -1
    fd = files.open(path, write=False)
    try:
        for _, (base, _, _, _, _, _, delta, *_) in walk_file(
            lambda size, position: files.pread(fd, size, position), 0, files.size(fd)
        ):
            end = base + delta + 1
    finally:
        files.close(fd)
    return end
