"""A node in its own process, started as users start it."""

from __future__ import annotations

import selectors
import signal
import socket
import struct
import subprocess
import sys
from types import MappingProxyType
from typing import IO, TYPE_CHECKING

from kraftlog.client.deadline import Deadline
from kraftlog.errors import ErrorCode
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Mapping


#: Retention would run after 30 s and delete records with old timestamps.
WITHOUT_RETENTION = "log.initial.task.delay.ms=86400000"


class NodeProcess:
    """`kraftlog start` on a free port; `address` is the one that its ready line reports.

    `topics` maps names to partition counts; missing topics are created. If `data` is None, the node
    gets only `arguments`, without options for its directory and port.
    """

    def __init__(
        self,
        data: str | None,
        *arguments: str,
        errors: str,
        module: str = "kraftlog",
        topics: Mapping[str, int] = MappingProxyType({"demo": 1}),
    ) -> None:
        self.errors = errors
        command = [sys.executable, "-m", module, "start", "--override", WITHOUT_RETENTION]
        if data is not None:
            command += ["--data", data, "--port", "0"]
        with open(errors, "ab") as file:
            self.process = subprocess.Popen(
                [*command, *arguments], bufsize=0, stdout=subprocess.PIPE, stderr=file
            )
        assert self.process.stdout is not None
        line = read_line(self.process.stdout)
        if not line.startswith("kraftlog ready on "):
            self.kill()
            with open(errors) as file:
                raise AssertionError(f"the node printed {line!r} and {file.read()!r}")
        self.address = line.split()[-1]
        if topics:
            self._create_topics(topics)

    def _create_topics(self, topics: Mapping[str, int]) -> None:
        try:
            create_topics(self.port, topics)
        except BaseException:
            self.kill()
            raise

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def stop(self) -> int:
        """Stop the node cleanly; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def kill_if_running(self) -> None:
        if self.process.poll() is None:
            self.kill()

    def wait(self) -> int:
        """Wait until the node ends; return its exit code."""
        code = self.process.wait(LIMIT_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def logged_errors(self) -> list[str]:
        """The lines on standard error, without warnings about long turns on a slow machine."""
        lines = self.output().splitlines()
        return [line for line in lines if not line.startswith("a turn of the event loop")]

    def output(self) -> str:
        with open(self.errors) as file:
            return file.read()


def read_line(stream: IO[bytes]) -> str:
    """The next line, or the part of it that arrives before the stream ends or the time is up."""
    deadline = Deadline(LIMIT_S)
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if deadline.is_over or not selector.select(deadline.left_s()):
                break
            byte = stream.read(1)
            if not byte:
                break
            line += byte
    return line.decode().strip()


def create_topics(port: int, topics: Mapping[str, int]) -> None:
    """Create topics with an admin client; existing ones are accepted."""
    new_topics = [
        CreatableTopic(
            name=name, num_partitions=count, replication_factor=1, assignments=(), configs=()
        )
        for name, count in topics.items()
    ]
    request = CreateTopicsRequest(topics=new_topics)
    frame = request_frame(APIS[ApiKey.CREATE_TOPICS], 7, 1, "test", request)
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as client:
        client.sendall(b"".join(frame))
        with client.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            response = decode(CreateTopicsResponse, 7, stream.read(size), 5)
    codes = {topic.error_code for topic in response.topics}
    assert codes <= {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}, response
