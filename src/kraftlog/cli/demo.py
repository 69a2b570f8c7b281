"""`kraftlog demo`: a cluster, its clients and an archive on Spark, while a broker is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from threading import Thread

from kraftlog.cli import INTERRUPTED, local_cluster
from kraftlog.cli.demo_clients import GROUP, TOPIC, GroupReader, Writer
from kraftlog.cli.pipeline import missing_packages
from kraftlog.cli.start import options_of
from kraftlog.cli.supervisor import python_command
from kraftlog.client.client import Client
from kraftlog.client.deadline import Deadline
from kraftlog.errors import ClientError, KraftlogError, message_of
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NODES, PARTITIONS = 3, 3
#: How many records are written between the kill of a broker and its restart.
STEP_RECORDS = 2000
#: How long a step may take while all processes live; usually each takes seconds.
STEP_TIMEOUT_S = 1800
#: How long a request may take with all its attempts, and how long a process may take to end.
REQUEST_TIMEOUT_S = STOP_TIMEOUT_S = 300
#: How many of the last lines of a process's output an error shows.
SHOWN_LINES = 15
_POLL_S = 0.1
FAILED = 1


class DemoError(KraftlogError):
    """A step has failed; `log` is the path of the output of the process that it waited for."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


def run(arguments: Sequence[str]) -> int:
    from kraftlog.client.command_parser import CommandParser

    parser = CommandParser(
        prog="kraftlog demo",
        description="Start a cluster of three nodes with a producer and a consumer group, archive "
        "their topic to a Delta table on Spark, kill a broker meanwhile, and verify the table.",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the folder of the cluster and of the table"
    )
    parser.add_argument("--json", action="store_true", help="print each step as a line of JSON")
    options = parser.parse_args(arguments)
    if missing := missing_packages():
        print(f"kraftlog demo: {missing}", file=sys.stderr)
        return FAILED
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    demo = Demo(keep=options.keep, is_json=options.json)
    try:
        demo.run()
    except KeyboardInterrupt:
        print("kraftlog demo: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (KraftlogError, OSError) as error:
        print(_failure(error, is_kept=options.keep), file=sys.stderr)
        return FAILED
    finally:
        demo.close()
    return 0


def _failure(error: Exception, *, is_kept: bool) -> str:
    """The error, what to try, and the last lines of the output of the failed process."""
    keep = "" if is_kept else " with --keep, which keeps all output,"
    advice = f"On a busy machine, stop other programs; then run it again{keep} or report this"
    lines = [f"kraftlog demo: {message_of(error)}. {advice}"]
    if isinstance(error, DemoError) and error.log:
        lines.append(f"the last lines of {os.path.basename(error.log)}:")
        lines += [f"    {line}" for line in _last_lines(error.log)]
    return "\n".join(lines)


class Demo:
    """Runs the steps of the demo; `close` stops all processes that they have started."""

    def __init__(self, *, keep: bool, is_json: bool = False) -> None:
        self._keep = keep
        self._is_json = is_json
        self._folder = tempfile.mkdtemp(prefix="kraftlog-demo-")
        self._lake = os.path.join(self._folder, "lake")
        self._plan = local_cluster.plan(
            options_of(["--nodes", str(NODES), "--port", "0", "--data", f"{self._folder}/nodes"])
        )
        self._servers = ",".join([node.listener for node in self._plan.nodes])
        self._nodes: dict[int, subprocess.Popen[bytes]] = {}
        self._writer: Writer | None = None
        self._reader: GroupReader | None = None
        self._archive: Archive | None = None

    def run(self) -> None:
        started = time.perf_counter()
        self._start_nodes()
        with Client(self._servers, timeout_s=REQUEST_TIMEOUT_S) as client:
            self._create_topic(client)
            self._start_clients()
            self._start_archive()
            self._kill_a_broker(client)
            total = self._stop_writing(client)
            self._finish_archive(total)
        self._verify()
        seconds = time.perf_counter() - started
        self._say(
            f"done in {seconds:.0f} s: no record is lost or duplicated",
            event="result",
            records=total,
            seconds=round(seconds, 1),
        )

    def _say(self, text: str, *, event: str = "step", **data: object) -> None:
        """Print a step; with --json as the pipelines do, whose lines come between."""
        if self._is_json:
            print(json.dumps({"event": event, "step": text, **data}), flush=True)
        else:
            print(f"demo: {text}", flush=True)

    def _start_nodes(self) -> None:
        self._say(f"starting {NODES} nodes on {self._servers}")
        local_cluster.prepare(self._plan)
        for node in self._plan.nodes:
            self._start_node(node.id)
        self._wait_until("the nodes did not form a cluster", self._all_brokers_are_up)

    def _start_node(self, node_id: int) -> None:
        node = self._plan.nodes[node_id - 1]
        with open(f"{node.directory}.txt", "ab") as log:
            self._nodes[node_id] = subprocess.Popen(
                python_command("start", node.file, "--stop-at-eof"),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _all_brokers_are_up(self) -> bool:
        # A new client each time, as a client retries nodes that do not listen only after a pause.
        with suppress(ClientError), Client(self._servers, timeout_s=5) as client:
            return len(client.describe_cluster().brokers) == NODES
        return False

    def _create_topic(self, client: Client) -> None:
        client.create_topic(TOPIC, PARTITIONS, NODES)
        self._say(f"created topic {TOPIC} with {PARTITIONS} partitions on {NODES} replicas")

    def _start_clients(self) -> None:
        writer = self._writer = Writer(self._servers)
        reader = self._reader = GroupReader(self._servers)
        self._say(f"a producer with acks=all and consumer group {GROUP} are at work")
        self._wait_until(
            "the producer and the group did not start",
            lambda: writer.acknowledged > 0 and len(reader.read) > 0,
        )

    def _start_archive(self) -> None:
        self._say(f"archiving {TOPIC} to {self._lake}: Spark starts")
        archive = self._archive = Archive(self._servers, self._lake, self._log_path("archive"))
        self._wait_until("the archive did not begin", lambda: archive.rows > 0, archive.log)
        self._say(f"{archive.rows:,} records are in the Delta table")

    def _kill_a_broker(self, client: Client) -> None:
        writer = self._writer
        assert writer is not None
        node_id = client.describe_topic(TOPIC).partitions[0].leader
        process = self._nodes.pop(node_id)
        process.kill()
        process.wait()
        acknowledged_before = writer.acknowledged
        self._say(f"killed node {node_id} (kill -9), leader of {TOPIC}-0")
        self._wait_until(
            "the producer did not continue",
            lambda: writer.acknowledged >= acknowledged_before + STEP_RECORDS,
        )
        leader = client.describe_topic(TOPIC).partitions[0].leader
        self._say(
            f"node {leader} leads {TOPIC}-0 now; "
            f"{writer.acknowledged - acknowledged_before:,} more records are acknowledged"
        )
        self._start_node(node_id)
        self._wait_until(
            f"node {node_id} did not catch up",
            lambda: all(
                len(partition.isr) == NODES for partition in client.describe_topic(TOPIC).partitions
            ),
        )
        self._say(f"started node {node_id} again: it has caught up and is in every ISR")

    def _stop_writing(self, client: Client) -> int:
        """Stop the producer, and the group once it has read all records; return their number."""
        writer, reader = self._writer, self._reader
        assert writer is not None
        assert reader is not None
        writer.stop()
        self._check_processes()
        total = sum(end.offset for end in client.offsets(TOPIC).values())
        if total != writer.acknowledged:
            raise DemoError(
                f"{writer.acknowledged:,} records were acknowledged, the log has {total:,}"
            )
        self._say(
            f"the producer has stopped: {total:,} records were acknowledged, and the log has them"
        )
        self._wait_until("the group did not read all", lambda: len(reader.read) == total)
        reader.stop()
        self._say(f"group {GROUP} has read all of them")
        return total

    def _finish_archive(self, total: int) -> None:
        archive = self._archive
        assert archive is not None
        self._wait_until("the archive did not catch up", lambda: archive.rows >= total, archive.log)
        archive.stop()
        self._say(f"the archive has caught up: {archive.rows:,} records")

    def _verify(self) -> None:
        arguments = ["verify", self._lake, "--bootstrap-server", self._servers]
        arguments += ["--json"] * self._is_json
        self._say(f"kraftlog pipeline {' '.join(arguments)}")
        log = self._log_path("verify")
        with open(log, "wb") as file:
            try:
                result = subprocess.run(
                    python_command("pipeline", *arguments),
                    stderr=file,
                    check=False,
                    timeout=STEP_TIMEOUT_S,
                )
            except subprocess.TimeoutExpired:
                raise DemoError(f"verify did not end within {STEP_TIMEOUT_S} s", log) from None
        if result.returncode:
            raise DemoError(f"verify ended with exit code {result.returncode}", log)

    def _log_path(self, name: str) -> str:
        return os.path.join(self._folder, f"{name}.txt")

    def _wait_until(self, failure: str, is_done: Callable[[], bool], log: str = "") -> None:
        """Wait until `is_done`; raise if a process or client fails, or after the timeout."""
        deadline = Deadline(STEP_TIMEOUT_S)
        while not is_done():
            self._check_processes()
            if deadline.is_over:
                raise DemoError(f"{failure} within {STEP_TIMEOUT_S} s", log)
            deadline.pause(_POLL_S)

    def _check_processes(self) -> None:
        for client in (self._writer, self._reader):
            if client is not None and client.error is not None:
                raise client.error
        if self._archive is not None:
            self._archive.check()
        for node_id, process in self._nodes.items():
            if process.poll() is not None:
                log = f"{self._plan.nodes[node_id - 1].directory}.txt"
                raise DemoError(f"node {node_id} has ended", log)

    def close(self) -> None:
        """Stop all processes, and remove the folder unless it is kept."""
        if self._archive is not None:
            self._archive.kill()
        for process in self._nodes.values():
            # A second signal skips the controlled shutdown, which would need the other nodes.
            process.terminate()
            process.send_signal(signal.SIGINT)
        for process in self._nodes.values():
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for sock in self._plan.port_reservations:
            sock.close()
        if not self._keep:
            shutil.rmtree(self._folder, ignore_errors=True)
            return
        self._say(f"kept: Delta table {self._lake}/{TOPIC}")
        self._say(f"kept: the cluster; kraftlog start --nodes {NODES} --data {self._folder}/nodes")


class Archive:
    """A process of `kraftlog pipeline archive`; `rows` counts the rows that it has written."""

    def __init__(self, servers: str, lake: str, log: str) -> None:
        self.rows = 0
        #: The path of a file with its standard output and standard error.
        self.log = log
        arguments = ["archive", TOPIC, "--to", lake, "--bootstrap-server", servers]
        arguments += ["--continuous", "--trigger", "1 second", "--json"]
        with open(log, "ab") as file:
            self._process = subprocess.Popen(
                python_command("pipeline", *arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
            )
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with open(self.log, "ab", buffering=0) as log:
            for line in self._process.stdout:
                log.write(line)
                event = json.loads(line)
                if event["event"] == "progress":
                    self.rows = event["rows"]

    def check(self) -> None:
        if self._process.poll() not in {None, INTERRUPTED}:
            raise DemoError("the archive has ended", self.log)

    def stop(self) -> None:
        self._process.terminate()
        try:
            code = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise DemoError(
                f"the archive did not stop within {STOP_TIMEOUT_S} s", self.log
            ) from None
        if code != INTERRUPTED:
            raise DemoError(f"the archive ended with exit code {code}", self.log)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._thread.join()
        if self._process.stdout is not None:
            self._process.stdout.close()


def _last_lines(path: str) -> list[str]:
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line for line in file.read().splitlines() if line]
    return lines[-SHOWN_LINES:] or ["it printed nothing"]
