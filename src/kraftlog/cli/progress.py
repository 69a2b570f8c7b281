"""`ChangeProgress`: shows the progress of a change that the cluster makes step by step."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

#: How often commands look up the progress of a change.
POLL_S = 0.2


class ChangeProgress:
    """Shows progress: on a terminal it redraws one line, elsewhere it prints each new text."""

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
