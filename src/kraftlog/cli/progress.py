"""`ChangeProgress`: shows how far a change is that the cluster makes step by step."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

#: Time between two looks at the progress.
POLL_S = 0.2


class ChangeProgress:
    """Shows progress on standard error: one line redrawn on a terminal, else a line per change."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_redrawn = stream.isatty()
        self._shown = ""

    def show(self, text: str) -> None:
        if text == self._shown:
            return
        self._shown = text
        start, end = ("\r\x1b[K", "") if self._is_redrawn else ("", "\n")
        print(f"{start}{text}", end=end, file=self._stream, flush=True)

    def end(self) -> None:
        if self._is_redrawn and self._shown:
            print(file=self._stream, flush=True)
