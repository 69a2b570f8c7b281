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
from kraftlog.errors import ClientError, KraftlogError, in_words
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NODES, PARTITIONS = 3, 3
#: How many records are written before the next step.
STEP_RECORDS = 2000
#: How long a step may take while all processes live; on a quiet machine each takes seconds.
LIMIT_S = 1800
#: How long a request may take with all its attempts, and how long a process may take to end.
REQUEST_S = STOP_S = 300
#: How many lines of a process's output an error shows.
LINES = 15
_POLL_S = 0.1
FAILED = 1


class DemoError(KraftlogError):
    """A step did not end as it should; `log` is the output of the process that it waited for."""

    def __init__(self, what: str, log: str = "") -> None:
        super().__init__(what)
        self.log = log


def run(arguments: Sequence[str]) -> int:
    import argparse

    parser = argparse.ArgumentParser(
        prog="kraftlog demo",
        description="Start a cluster of three nodes with a producer and a consumer group, archive "
        "their topic to a Delta table on Spark, kill a broker meanwhile, and verify the table.",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the directory of the cluster and of the table"
    )
    options = parser.parse_args(arguments)
    if missing := missing_packages():
        print(f"kraftlog demo: {missing}", file=sys.stderr)
        return FAILED
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    demo = Demo(keep=options.keep)
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
    """What went wrong, what to try, and the last lines of the process that it is about."""
    keep = "" if is_kept else " with --keep, which keeps all output,"
    advice = f"On a busy machine, stop other programs; then run it again{keep} or report this"
    lines = [f"kraftlog demo: {in_words(error)}. {advice}"]
    if isinstance(error, DemoError) and error.log:
        lines.append(f"the last lines of {os.path.basename(error.log)}:")
        lines += [f"    {line}" for line in _last_lines(error.log)]
    return "\n".join(lines)


class Demo:
    """The steps, and what runs meanwhile. Everything it starts ends with it."""

    def __init__(self, *, keep: bool) -> None:
        self._keep = keep
        self._directory = tempfile.mkdtemp(prefix="kraftlog-demo-")
        self._lake = os.path.join(self._directory, "lake")
        self._plan = local_cluster.plan(
            options_of(["--nodes", str(NODES), "--port", "0", "--data", f"{self._directory}/nodes"])
        )
        self._servers = ",".join([node.listener for node in self._plan.nodes])
        self._nodes: dict[int, subprocess.Popen[bytes]] = {}
        self._writer: Writer | None = None
        self._reader: GroupReader | None = None
        self._archive: Archive | None = None

    def run(self) -> None:
        started = time.perf_counter()
        self._start_nodes()
        with Client(self._servers, timeout_s=REQUEST_S) as client:
            self._create_topic(client)
            self._start_clients()
            self._start_archive()
            self._kill_a_broker(client)
            total = self._stop_writing(client)
            self._finish_archive(total)
        self._verify()
        _say(f"done in {time.perf_counter() - started:.0f} s: no record is lost or duplicated")

    def _start_nodes(self) -> None:
        _say(f"starting {NODES} nodes on {self._servers}")
        local_cluster.prepare(self._plan)
        for node in self._plan.nodes:
            self._start_node(node.id)
        self._await("the nodes did not form a cluster", self._all_brokers_are_up)

    def _start_node(self, number: int) -> None:
        node = self._plan.nodes[number - 1]
        with open(f"{node.directory}.txt", "ab") as log:
            self._nodes[number] = subprocess.Popen(
                python_command("start", node.file, "--stop-at-eof"),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _all_brokers_are_up(self) -> bool:
        # A client of its own, as nodes that do not listen yet are tried only once in a while.
        with suppress(ClientError), Client(self._servers, timeout_s=5) as client:
            return len(client.describe_cluster().brokers) == NODES
        return False

    def _create_topic(self, client: Client) -> None:
        client.create_topic(TOPIC, PARTITIONS, NODES)
        _say(f"created topic {TOPIC} with {PARTITIONS} partitions on {NODES} replicas")

    def _start_clients(self) -> None:
        writer = self._writer = Writer(self._servers)
        reader = self._reader = GroupReader(self._servers)
        _say(f"a producer with acks=all and consumer group {GROUP} are at work")
        self._await(
            "the producer and the group did not start",
            lambda: writer.acknowledged > 0 and len(reader.read) > 0,
        )

    def _start_archive(self) -> None:
        _say(f"archiving {TOPIC} to {self._lake}: Spark starts")
        archive = self._archive = Archive(self._servers, self._lake, self._log_of("archive"))
        self._await("the archive did not begin", lambda: archive.rows > 0, archive.log)
        _say(f"{archive.rows:,} records are in the Delta table")

    def _kill_a_broker(self, client: Client) -> None:
        writer = self._writer
        assert writer is not None
        number = client.describe_topic(TOPIC).partitions[0].leader
        process = self._nodes.pop(number)
        process.kill()
        process.wait()
        before = writer.acknowledged
        _say(f"killed node {number} (kill -9), leader of {TOPIC}-0")
        self._await(
            "the producer did not continue", lambda: writer.acknowledged >= before + STEP_RECORDS
        )
        leader = client.describe_topic(TOPIC).partitions[0].leader
        _say(
            f"node {leader} leads {TOPIC}-0 now; {writer.acknowledged - before:,} more records "
            "are acknowledged"
        )
        self._start_node(number)
        self._await(
            f"node {number} did not catch up",
            lambda: all(len(it.isr) == NODES for it in client.describe_topic(TOPIC).partitions),
        )
        _say(f"started node {number} again: it has caught up and is in every ISR")

    def _stop_writing(self, client: Client) -> int:
        """Stop the clients after the last record; return how many records there are."""
        writer, reader = self._writer, self._reader
        assert writer is not None
        assert reader is not None
        writer.stop()
        self._check()
        total = sum(found.offset for found in client.offsets(TOPIC).values())
        if total != writer.acknowledged:
            raise DemoError(
                f"{writer.acknowledged:,} records were acknowledged, the log has {total:,}"
            )
        _say(f"the producer has stopped: {total:,} records were acknowledged, and the log has them")
        self._await("the group did not read all", lambda: len(reader.read) == total)
        reader.stop()
        _say(f"group {GROUP} has read all of them")
        return total

    def _finish_archive(self, total: int) -> None:
        archive = self._archive
        assert archive is not None
        self._await("the archive did not catch up", lambda: archive.rows >= total, archive.log)
        archive.stop()
        _say(f"the archive has caught up: {archive.rows:,} records")

    def _verify(self) -> None:
        words = ["verify", self._lake, "--bootstrap-server", self._servers]
        _say(f"kraftlog pipeline {' '.join(words)}")
        log = self._log_of("verify")
        with open(log, "wb") as file:
            try:
                verify = subprocess.run(
                    python_command("pipeline", *words), stderr=file, check=False, timeout=LIMIT_S
                )
            except subprocess.TimeoutExpired:
                raise DemoError(f"verify did not end within {LIMIT_S} s", log) from None
        if verify.returncode:
            raise DemoError(f"verify ended with exit code {verify.returncode}", log)

    def _log_of(self, name: str) -> str:
        return os.path.join(self._directory, f"{name}.txt")

    def _await(self, otherwise: str, is_done: Callable[[], bool], log: str = "") -> None:
        """Wait for an event; raise if something ended meanwhile or it takes too long."""
        deadline = Deadline(LIMIT_S)
        while not is_done():
            self._check()
            if deadline.is_over:
                raise DemoError(f"{otherwise} within {LIMIT_S} s", log)
            deadline.pause(_POLL_S)

    def _check(self) -> None:
        for client in (self._writer, self._reader):
            if client is not None and client.error is not None:
                raise client.error
        if self._archive is not None:
            self._archive.check()
        for number, process in self._nodes.items():
            if process.poll() is not None:
                log = f"{self._plan.nodes[number - 1].directory}.txt"
                raise DemoError(f"node {number} has ended", log)

    def close(self) -> None:
        """Stop all processes, and remove the directory unless it is kept."""
        if self._archive is not None:
            self._archive.kill()
        for process in self._nodes.values():
            # The second signal: do not wait for other nodes, which stop as well.
            process.terminate()
            process.send_signal(signal.SIGINT)
        for process in self._nodes.values():
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for sock in self._plan.held:
            sock.close()
        if not self._keep:
            shutil.rmtree(self._directory, ignore_errors=True)
            return
        _say(f"kept: Delta table {self._lake}/{TOPIC}")
        _say(f"kept: the cluster; kraftlog start --nodes {NODES} --data {self._directory}/nodes")


class Archive:
    """`kraftlog pipeline archive` in a process of its own; `rows` are those it has written."""

    def __init__(self, servers: str, lake: str, log: str) -> None:
        self.rows = 0
        #: What it prints, on standard output as well.
        self.log = log
        words = ["archive", TOPIC, "--to", lake, "--bootstrap-server", servers]
        words += ["--continuous", "--trigger", "1 second", "--json"]
        with open(log, "ab") as file:
            self._process = subprocess.Popen(
                python_command("pipeline", *words),
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
            code = self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise DemoError(f"the archive did not stop within {STOP_S} s", self.log) from None
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
    return lines[-LINES:] or ["it printed nothing"]


def _say(text: str) -> None:
    print(f"demo: {text}", flush=True)
