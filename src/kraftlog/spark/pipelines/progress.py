"""Prints the progress of a pipeline: rows, rows per second, lag and time left; or JSON.

Text goes to standard error, except the result, which goes to standard output. On a terminal the
progress is redrawn in the last line; a file gets at most one line of it per second. With --json,
each step, progress report, row and result is a JSON object on standard output.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TextIO

_NS = 1_000_000_000
#: Rates are averages over this time, because tasks and micro-batches end in bursts.
_WINDOW_S = 30


class Progress:
    """Prints the progress of a pipeline. Any thread may call it."""

    def __init__(
        self,
        name: str,
        *,
        is_json: bool = False,
        lines: TextIO | None = None,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._name = name
        self._is_json = is_json
        self._stream = lines or (sys.stdout if is_json else sys.stderr)
        self._redraws = not is_json and self._stream.isatty()
        self._now_ns = now_ns
        self._lock = Lock()
        #: Times and numbers of rows of earlier calls, for the rate.
        self._samples: deque[tuple[int, int]] = deque([(now_ns(), 0)])
        self._last_line_ns = now_ns() - _NS
        self._is_line_open = False

    def begin(self) -> None:
        """Count rates from now on, to leave out earlier work such as the start of Spark."""
        with self._lock:
            self._samples = deque([(self._now_ns(), 0)])

    def say(self, text: str, **data: object) -> None:
        """Print a step of the pipeline as a line."""
        with self._lock:
            if self._is_json:
                self._print_json({"event": "step", "step": text, **data})
            else:
                self._print(f"{self._name}: {text}")

    def show(
        self,
        rows: int,
        *,
        lag: int | None = None,
        total: int | None = None,
        unit: str = "rows",
        at_least_s: float = 0,
        **data: object,
    ) -> None:
        """Print that `rows` are done out of `total`, or that `lag` rows are left for now.

        `at_least_s` is how long the rest takes at least, whatever the rate until now.
        """
        left = lag if total is None else total - rows
        with self._lock:
            now_ns = self._now_ns()
            if self._samples[-1][1] == rows and not self._redraws:
                return
            rate = self._rate(now_ns, rows)
            left_s = None if left is None or rate <= 0 else round(left / rate, 1)
            if at_least_s and left:
                left_s = max(left_s or 0, round(at_least_s, 1))
            if self._is_json:
                done = {unit: rows, f"{unit}_per_s": round(rate, 1), "left_s": left_s}
                lag_or_total = {"lag": lag} if total is None else {"of": total}
                self._print_json({"event": "progress", **done, **lag_or_total, **data})
                return
            if not self._redraws and now_ns - self._last_line_ns < _NS and left != 0:
                return
            self._last_line_ns = now_ns
            done_text = f"{rows:,} {unit}" if total is None else f"{rows:,} of {total:,} {unit}"
            parts = [f"{self._name}: {done_text}", f"{rate:,.{int(rate < 10)}f} {unit}/s"]
            if lag is not None:
                parts.append(f"lag {lag:,}")
            if left and left_s is not None:
                parts.append(f"{duration_text(left_s)} left")
            self._print("  ".join(parts), may_redraw=True)

    def _rate(self, now_ns: int, rows: int) -> float:
        """Rows per second in the window that ends now."""
        self._samples.append((now_ns, rows))
        while len(self._samples) > 2 and now_ns - self._samples[1][0] > _WINDOW_S * _NS:
            self._samples.popleft()
        start_ns, rows_at_start = self._samples[0]
        return (rows - rows_at_start) * _NS / max(now_ns - start_ns, 1)

    def row(self, data: Mapping[str, Any]) -> None:
        """With --json, print one row of a result with many rows."""
        with self._lock:
            if self._is_json:
                self._print_json({"event": "row", **data})

    def result(self, data: Mapping[str, Any], text: str) -> None:
        """Print the result on standard output: `data` with --json, else `text`."""
        with self._lock:
            if self._is_json:
                self._print_json({"event": "result", **data})
            else:
                self._close_line()
                print(text, flush=True)

    def end(self) -> None:
        with self._lock:
            self._close_line()

    def _print(self, text: str, *, may_redraw: bool = False) -> None:
        if may_redraw and self._redraws:
            print(f"\r\x1b[K{text}", end="", file=self._stream, flush=True)
            self._is_line_open = True
            return
        self._close_line()
        print(text, file=self._stream, flush=True)

    def _print_json(self, data: Mapping[str, object]) -> None:
        print(json.dumps(data), file=self._stream, flush=True)

    def _close_line(self) -> None:
        if self._is_line_open:
            print(file=self._stream, flush=True)
            self._is_line_open = False


def duration_text(seconds: float) -> str:
    """A duration as text, such as 0:07 or 1:02:03."""
    minutes, remaining = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{remaining:02}" if hours else f"{minutes}:{remaining:02}"
