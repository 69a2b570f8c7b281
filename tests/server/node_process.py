"""A node as a process of its own, as users start it."""

from __future__ import annotations

import selectors
import signal
import subprocess
import sys
import time
from typing import IO

READY_WITHIN_S = 30
GONE_WITHIN_S = 30


class NodeProcess:
    """`kraftlog start` on a free port; `address` once it has said that it is ready."""

    def __init__(self, data: str, *arguments: str, errors: str, module: str = "kraftlog") -> None:
        self.errors = errors
        command = [sys.executable, "-m", module, "start", "--data", data, "--port", "0"]
        with open(errors, "ab") as file:
            self.process = subprocess.Popen(
                [*command, *arguments], bufsize=0, stdout=subprocess.PIPE, stderr=file
            )
        assert self.process.stdout is not None
        line = read_line(self.process.stdout)
        if not line.startswith("kraftlog ready on "):
            self.kill()
            with open(errors) as said:
                raise AssertionError(f"the node said {line!r} and {said.read()!r}")
        self.address = line.split()[-1]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def stop(self) -> int:
        """A clean stop; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.gone()

    def kill(self) -> None:
        self.process.kill()
        self.gone()

    def make_sure_it_is_gone(self) -> None:
        if self.process.poll() is None:
            self.kill()

    def gone(self) -> int:
        """Wait for its end; the exit code."""
        code = self.process.wait(GONE_WITHIN_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def said(self) -> str:
        with open(self.errors) as file:
            return file.read()


def read_line(stream: IO[bytes]) -> str:
    """The next line, or what there is of it when the stream ends or takes too long."""
    deadline = time.monotonic() + READY_WITHIN_S  # noqa: TID251 - a generous limit, not a measure
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()  # noqa: TID251 - as above
            if left <= 0 or not selector.select(left):
                break
            byte = stream.read(1)
            if not byte:
                break
            line += byte
    return line.decode().strip()
