"""Tables, colours and progress."""

from __future__ import annotations

import io
import os
import pty
from typing import TYPE_CHECKING

from kraftlog.cli.show import Progress, has_colours, size_text
from kraftlog.client.text_table import table

if TYPE_CHECKING:
    import pytest


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_table_aligns_numbers_to_the_right() -> None:
    rows = [("a", 1, None), ("long name", 1000, "x")]
    assert table(("NAME", "COUNT", "REST"), rows) == (
        "NAME       COUNT  REST\n"
        "a              1  -\n"
        "long name   1000  x"
    )  # fmt: skip
    assert table(("A", "B"), []) == "A  B"
    assert table(("A",), [(1,)], coloured=True) == "\x1b[1mA\x1b[0m\n1"


def test_colours_need_a_terminal_and_can_be_switched_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert has_colours(Terminal())
    assert not has_colours(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colours(Terminal())


def test_sizes_are_printed_in_binary_units() -> None:
    assert [size_text(n) for n in (0, 1023, 1536, 3 << 20, 5 << 40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "3.0 MiB",
        "5.0 TiB",
    ]


def test_progress_needs_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, shown in ((Terminal(), "\r10000 done\r\x1b[K"), (io.StringIO(), "")):
        monkeypatch.setattr("sys.stderr", stream)
        progress = Progress("done")
        progress.add(9_999)
        progress.add(1)
        progress.end()
        assert (stream.getvalue(), progress.count) == (shown, 10_000)


def test_a_real_terminal_has_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    master, slave = pty.openpty()
    with os.fdopen(master, "rb"), os.fdopen(slave, "w") as stream:
        assert has_colours(stream)
