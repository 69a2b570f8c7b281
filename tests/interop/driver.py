"""Kafka's own code for tests: its tools, message classes and record batches.

It runs in one JVM (`jvm/Driver.java`), the fixture `jvm`:

    jvm.tool("org.apache.kafka.tools.TopicCommand", "--list", "--bootstrap-server", address)
    jvm.decode([("TopicRecord", 0, data), ("request:18", 3, data), ("metadata", 0, data)])
    jvm.encode([("request:18", 3, {"clientSoftwareName": "a", ...})])
    jvm.build([Batch(records=[Record(value=b"a")], codec="zstd")])
    jvm.parse([data])
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import threading
from base64 import b64decode, b64encode
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from kraftlog.client.deadline import Deadline
from tests.interop.kafka_jars import SOURCES, driver_classes, kafka_libs, require_java
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

JAVA_OPTIONS = (
    "-Xmx1g",
    "-XX:+UseSerialGC",  # two cores: more collector threads would only compete with the tests
    "-XX:TieredStopAtLevel=1",  # most of the code runs only once
    "-Djava.awt.headless=true",
    "-Djava.security.manager=allow",  # lets the driver intercept a tool's System.exit
    "-Dfile.encoding=UTF-8",
    "-Duser.language=en",
    "-Duser.country=US",
    f"-Dlog4j2.configurationFile={os.path.join(SOURCES, 'log4j2.xml')}",
)
#: A properties file for tools whose timeouts are too short.
LONG_TIMEOUTS = os.path.join(SOURCES, "long-timeouts.properties")
#: Extra time for the driver after a tool's time limit, to end the tool's threads.
GRACE_SECONDS = 60

#: What tools say of a topic or a config that the asked broker doesn't know.
NOT_REPLAYED = ("does not exist as expected", "does not host this topic", "Invalid config(s)")


class DriverError(Exception):
    """The driver refused a request, or has ended."""


@dataclass(frozen=True)
class ToolResult:
    """The exit code and output of a tool."""

    exit_code: int
    stdout_bytes: bytes
    stderr_bytes: bytes
    timed_out: bool
    leaked: tuple[str, ...]  # threads that did not end

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")

    def ok(self) -> ToolResult:
        """Return itself; fail with the tool's output if the tool failed."""
        assert not self.timed_out, f"timed out\n{self.stdout}\n{self.stderr}"
        assert self.exit_code == 0, f"exit {self.exit_code}\n{self.stdout}\n{self.stderr}"
        return self


class RunningTool:
    """A tool that runs while the test goes on."""

    def __init__(self, driver: Driver, call: int, response: Future[Any], limit: float) -> None:
        self._driver = driver
        self._call = call
        self._response = response
        self._limit = limit

    def stop(self) -> ToolResult:
        """Stop the tool as Ctrl-C would, and wait until it ends; the exit code is 130."""
        self._driver.call("stop", call=self._call)
        return self.wait()

    def wait(self) -> ToolResult:
        """Wait until the tool ends; return its result."""
        response = self._driver.wait(self._response, self._limit)
        return ToolResult(
            exit_code=response["exit_code"],
            stdout_bytes=b64decode(response["stdout"]),
            stderr_bytes=b64decode(response["stderr"]),
            timed_out=response["timed_out"],
            leaked=tuple(response["leaked"]),
        )


@dataclass(frozen=True)
class DecodedMessage:
    """A message decoded by Kafka, or the `error` of decoding it."""

    json: Any = None
    encoded_again: bytes = b""  # the message, encoded again by Kafka
    left: int = 0  # number of unread bytes
    error: str = ""


@dataclass(frozen=True)
class Record:
    """A record for `Driver.build`; the default offset follows the previous record."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int = 0
    headers: Sequence[tuple[str, bytes | None]] = ()
    offset: int | None = None


@dataclass(frozen=True)
class Batch:
    """A record batch for `Driver.build`. In a control batch the keys are control types."""

    records: Sequence[Record]
    codec: str = "none"
    base_offset: int = 0
    leader_epoch: int = 0
    timestamp_type: int = 0  # 1: append_time applies to all
    append_time: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False
    control: bool = False


@dataclass
class Driver:
    """The JVM. Its methods may be called from several threads at once."""

    process: subprocess.Popen[bytes]
    _waiting: dict[int, Future[Any]] = field(default_factory=dict)
    _ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def start(cls, log_path: str) -> Driver:
        """Start a driver; the output of the JVM goes to `log_path`.

        Raises UnavailableError without Java or the jars.
        """
        require_java()
        libs = kafka_libs()
        class_path = f"{driver_classes(libs)}:{os.path.join(libs, '*')}"
        with open(log_path, "wb") as log:
            process = subprocess.Popen(
                ["java", *JAVA_OPTIONS, "-cp", class_path, "Driver"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        driver = cls(process)
        ready = driver._expect(0)
        driver._reader = threading.Thread(target=driver._read_responses, daemon=True)
        driver._reader.start()
        driver.wait(ready, LIMIT_S)
        return driver

    def close(self) -> None:
        """Stop the JVM and wait for its end."""
        assert self.process.stdin
        assert self.process.stdout
        try:
            self.process.stdin.close()  # the driver ends at the end of its input
            self.process.wait(LIMIT_S)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self._reader.join()
        self.process.stdout.close()

    def tool(
        self, class_name: str, *args: str, stdin: bytes = b"", seconds: float = LIMIT_S
    ) -> ToolResult:
        """Run a tool by its class, as if in a process of its own."""
        return self.start_tool(class_name, *args, stdin=stdin, seconds=seconds).wait()

    def tool_once_replayed(self, class_name: str, *args: str) -> str:
        """Run a tool until the broker that it asks knows the topics and configs it names.

        The controller answers before each broker has replayed a change, so that a tool run
        directly after another may not find what that one has made.
        """
        deadline = Deadline(LIMIT_S)
        while True:
            done = self.tool(class_name, *args)
            output = done.stdout + done.stderr
            if done.exit_code == 0:
                return done.stdout
            assert any(words in output for words in NOT_REPLAYED), output
            assert not deadline.is_over, output
            deadline.pause(0.1)

    def start_tool(
        self, class_name: str, *args: str, stdin: bytes = b"", seconds: float = LIMIT_S
    ) -> RunningTool:
        """Start a tool without waiting for its end."""
        call, response = self._send(
            "tool",
            {
                "class": class_name,
                "args": args,
                "stdin": b64encode(stdin).decode(),
                "timeout_ms": int(seconds * 1000),
            },
        )
        return RunningTool(self, call, response, seconds + GRACE_SECONDS)

    def decode(self, items: Iterable[tuple[str, int, bytes]]) -> list[DecodedMessage]:
        """Decode (class, version, bytes); thousands per call are fine.

        A class is a name such as TopicRecord or FetchResponse, "request:18", "response:18", or
        "metadata": a record of the metadata log in its frame, whose version is in the frame.
        In JSON, bytes are base 64, and record sets always look empty: compare `encoded_again`
        instead.
        """
        wire = [(name, version, b64encode(data).decode()) for name, version, data in items]
        return [
            DecodedMessage(error=result["error"])
            if "error" in result
            else DecodedMessage(result["json"], b64decode(result["bytes"]), result["left"])
            for result in self.call("decode", items=wire)
        ]

    def encode(self, items: Iterable[tuple[str, int, Any]]) -> list[bytes]:
        """Encode (class, version, JSON). Kafka reads no record sets from JSON."""
        results = self.call("encode", items=list(items))
        errors = [result["error"] for result in results if "error" in result]
        if errors:
            raise DriverError(f"{len(errors)} of {len(results)} not encoded; first: {errors[0]}")
        return [b64decode(result["bytes"]) for result in results]

    def build(self, batches: Iterable[Batch]) -> list[bytes]:
        """Encode record batches with Kafka's MemoryRecordsBuilder."""
        responses = self.call("build", items=[asdict(batch) for batch in batches])
        return [b64decode(response) for response in responses]

    def parse(self, chunks: Iterable[bytes]) -> list[dict[str, Any]]:
        """Parse and check the batches of each chunk with Kafka's code.

        A result has "batches" (keys, values and header values are bytes) and "left", the size
        of a last, partial batch; or "error".
        """
        responses: list[dict[str, Any]] = self.call(
            "parse", items=[b64encode(chunk).decode() for chunk in chunks]
        )
        for response in responses:
            for batch in response.get("batches", ()):
                for record in batch["records"]:
                    record["key"] = _from_base64(record["key"])
                    record["value"] = _from_base64(record["value"])
                    record["headers"] = [(k, _from_base64(v)) for k, v in record["headers"]]
        return responses

    def call(self, command: str, **arguments: Any) -> Any:
        """Send a request; return the response."""
        return self.wait(self._send(command, arguments)[1], LIMIT_S)

    def wait(self, response: Future[Any], seconds: float) -> Any:
        """Wait for the response; a JVM that does not respond is killed."""
        try:
            return response.result(seconds)
        except TimeoutError:
            self.process.kill()
            raise DriverError(f"no response after {seconds} s; the JVM was killed") from None

    def _expect(self, number: int) -> Future[Any]:
        response: Future[Any] = Future()
        self._waiting[number] = response
        return response

    def _send(self, command: str, arguments: dict[str, Any]) -> tuple[int, Future[Any]]:
        assert self.process.stdin
        number = next(self._ids)
        response = self._expect(number)
        request = {"id": number, "command": command, **arguments}
        line = json.dumps(request, default=_to_base64).encode() + b"\n"
        try:
            with self._lock:
                self.process.stdin.write(line)
                self.process.stdin.flush()
        except OSError as e:
            raise DriverError("the JVM is gone") from e
        return number, response

    def _read_responses(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            response = json.loads(line)
            waiting = self._waiting.pop(response["id"])
            if "error" in response:
                waiting.set_exception(DriverError(response["error"]))
            else:
                waiting.set_result(response["ok"])
        for waiting in list(self._waiting.values()):
            waiting.set_exception(DriverError("the JVM is gone"))

    _reader: threading.Thread = field(init=False)


def _to_base64(data: object) -> str:
    if not isinstance(data, bytes):
        raise TypeError(f"{data!r} has no form in JSON")
    return b64encode(data).decode()


def _from_base64(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
