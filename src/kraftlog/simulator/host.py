"""A virtual host: carries the same node as the server, on files in memory and a clock set by hand.

No sockets, no threads, no waiting: bytes go in, and what is answered comes out.
"""

from __future__ import annotations

from collections import deque

from kraftlog.node.node import Node, NodeConfig
from kraftlog.node.slots import Slot
from kraftlog.runner.runner import Runner
from kraftlog.simulator.files import MemoryFiles
from kraftlog.storage.directory import LogDirectory
from kraftlog.types import Now
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from kraftlog.wire.schema import Message


class VirtualConnection:
    """Collects answers, in the order of the requests."""

    def __init__(self) -> None:
        self.slots: deque[Slot] = deque()

    def ready(self, slot: Slot) -> None:
        for piece in slot.pieces or ():
            if not isinstance(piece, bytes):
                piece.pin()

    def take(self) -> bytes:
        """The frames that have become ready, up to the first that is not."""
        out = b""
        while self.slots and self.slots[0].pieces is not None:
            for piece in self.slots.popleft().pieces or ():
                if isinstance(piece, bytes):
                    out += piece
                else:
                    out += piece.read()
                    piece.release()
        return out


class InlineLane:
    """Runs every job at the end of the turn."""

    def __init__(self) -> None:
        self._jobs: deque[
            tuple[Callable[[], Any], Callable[[Any, BaseException | None, Now], None]]
        ] = deque()

    def submit(
        self, job: Callable[[], Any], done: Callable[[Any, BaseException | None, Now], None]
    ) -> None:
        self._jobs.append((job, done))

    def deliver(self, now: Now) -> bool:
        """Run what was submitted; whether there was anything."""
        had_jobs = bool(self._jobs)
        while self._jobs:
            job, done = self._jobs.popleft()
            result, failure = None, None
            try:
                result = job()
            except OSError as error:  # what a thread would hand to the loop
                failure = error
            done(result, failure, now)
        return had_jobs


class VirtualHost:
    """One node. `now` is whatever the caller says it is."""

    def __init__(
        self, config: NodeConfig, records: Iterable[Message], files: MemoryFiles | None = None
    ) -> None:
        self.files = files or MemoryFiles()
        if not self.files.exists("data"):
            self.files.make_directory("data")
        self.now = Now(0, 0)
        self.said: list[str] = []
        self._lane = InlineLane()
        self.runner = Runner(
            self.files, LogDirectory(self.files, "data"), self._lane, self.said.append
        )
        self.node = Node(config, self.runner.logs)
        self.runner.carry(self.node)
        self.node.replay(records)
        self.turn()
        while self.runner.has_work:
            self.turn()

    def connect(self) -> VirtualConnection:
        return VirtualConnection()

    def send(self, connection: VirtualConnection, frame: bytes) -> None:
        """One request as a client sends it, with its length in front."""
        slot = Slot(connection)
        connection.slots.append(slot)
        buffer = bytearray(frame)
        self.node.frame(slot, buffer, 4, len(buffer), self.now)

    def turn(self) -> None:
        """What the server's loop does once per turn."""
        self.node.poll(self.now)
        self.runner.finish_turn(self.now)
        while self._lane.deliver(self.now):
            self.runner.finish_turn(self.now)

    def ask(self, connection: VirtualConnection, frame: bytes) -> bytes:
        self.send(connection, frame)
        self.turn()
        return connection.take()

    def pass_time(self, ms: int) -> None:
        self.now = Now(self.now.monotonic_ms + ms, self.now.wall_ms + ms)
        self.turn()
