"""Output of commands: tables, JSON and progress."""

from __future__ import annotations

import os
import sys

from kraftlog.client.text_table import table
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TextIO

#: Number of records between updates of the progress.
_PROGRESS_STEP = 10_000


def has_colours(stream: TextIO) -> bool:
    """Whether to use colours: only on terminals, and never with NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def print_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    print(table(heads, rows, coloured=has_colours(sys.stdout)))


def print_json(data: Any) -> None:
    import json

    print(json.dumps(data, indent=2))


def size_text(size: int) -> str:
    """A number of bytes with a unit."""
    number = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{size} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def escaped(data: bytes) -> str:
    """Bytes as text, with escapes such as \\t and \\xff for what is not printable."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join([each if each.isprintable() else ascii(each)[1:-1] for each in text])


def numbers(items: Iterable[int] | None) -> str:
    """Numbers separated by commas; empty for None."""
    return ",".join(map(str, items or ()))


class Progress:
    """Shows a count on standard error, if that is a terminal."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._is_shown = sys.stderr.isatty()
        self._next_count = _PROGRESS_STEP
        self.count = 0

    def add(self, count: int) -> None:
        self.count += count
        if self._is_shown and self.count >= self._next_count:
            self._next_count = self.count + _PROGRESS_STEP
            print(f"\r{self.count} {self._unit}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_shown and self.count >= _PROGRESS_STEP:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
