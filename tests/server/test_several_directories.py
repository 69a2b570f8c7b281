"""V18, JBOD: a node with three log directories, one of which fails, with real files."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.cli import main
from kraftlog.client.deadline import Deadline
from kraftlog.errors import ClientError, ErrorCode, RefusedError
from tests.client.waiting import until
from tests.interop.tool_session import CLASSES
from tests.server.node_process import NodeProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kraftlog.types import LogName
    from tests.interop.driver import Driver

PARTITIONS = 9
#: The timeout of requests that are expected to fail.
SHORT_S = 0.5


class Jbod:
    """A node with the directories `a` (which has the metadata log), `b` and `c`."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.start()

    def start(self) -> None:
        paths = ",".join([str(self.top / name) for name in "abc"])
        self.node = NodeProcess(
            None,
            "--port",
            "0",
            "--override",
            f"log.dirs={paths}",
            errors=str(self.top / "errors.txt"),
            topics={"demo": PARTITIONS},
        )

    def restart(self) -> None:
        assert self.node.stop() == 0
        self.start()

    def client(self, timeout_s: float = LIMIT_S) -> Client:
        return Client(self.node.address, timeout_s=timeout_s)

    def contents(self) -> tuple[dict[str, set[LogName]], set[str]]:
        """The logs in each directory, and the directories that are offline."""
        with self.client() as client:
            (directories,) = client.log_dirs().values()
        name_of = {str(self.top / name): name for name in "abc"}
        logs = {
            name_of[it.log_dir]: {
                (t.name, p.partition_index)
                for t in it.topics
                for p in t.partitions
                if not p.is_future_key
            }
            for it in directories
        }
        offline = {
            name_of[it.log_dir]
            for it in directories
            if it.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        }
        return logs, offline

    def await_leaderless(self, topic: str, expected: set[int]) -> None:
        deadline = Deadline(LIMIT_S)
        while True:
            with self.client() as client:
                partitions = client.describe_topic(topic).partitions
            found = {each.index for each in partitions if each.leader < 0}
            if found == expected:
                return
            assert not deadline.is_over, f"without leader: {found}, expected {expected}"
            deadline.pause(0.05)


@pytest.fixture
def jbod(tmp_path: Path) -> Iterator[Jbod]:
    started = Jbod(tmp_path)
    try:
        yield started
    finally:
        started.node.kill_if_running()


def indexes(logs: set[LogName], topic: str) -> set[int]:
    return {name[1] for name in logs if name[0] == topic}


def test_v18_a_failed_directory_does_not_affect_the_others(jbod: Jbod) -> None:
    """C215: not after a restart either. Once the disk is back, its records are served again."""
    with jbod.client() as client:
        for index in range(PARTITIONS):
            client.produce("demo", f"record {index}", partition=index)
    logs, offline = jbod.contents()
    assert (sorted(map(len, logs.values())), offline) == ([3, 3, 3], set())
    in_c = indexes(logs["c"], "demo")

    (jbod.top / "c").rename(jbod.top / "taken out")
    (jbod.top / "c").write_text("a file instead of a directory")
    with jbod.client() as client:
        client.create_topic("more", partitions=6)
    logs, _ = jbod.contents()
    with jbod.client(SHORT_S) as client, pytest.raises(ClientError):
        client.produce(
            "more",
            "the first record since the disk failed",
            partition=min(indexes(logs["c"], "more")),
        )
    jbod.await_leaderless("demo", in_c)
    assert jbod.contents()[1] == {"c"}
    with jbod.client() as client:
        for index in set(range(PARTITIONS)) - in_c:
            client.produce("demo", "while c is offline", partition=index)

    jbod.restart()
    jbod.await_leaderless("demo", in_c)
    assert f"{jbod.top}/c: cannot be opened, so its replicas are offline" in jbod.node.output()
    (jbod.top / "c").unlink()
    (jbod.top / "taken out").rename(jbod.top / "c")
    jbod.restart()
    jbod.await_leaderless("demo", set())
    with jbod.client() as client:
        ends = {index: found.offset for index, found in client.offsets("demo").items()}
    assert ends == {index: 1 if index in in_c else 2 for index in range(PARTITIONS)}


def write_plan(jbod: Jbod, directory: str) -> str:
    """Write a file that assigns partition 0 of `demo` to this directory; return its path."""
    part = {
        "topic": "demo",
        "partition": 0,
        "replicas": [1],
        "log_dirs": [str(jbod.top / directory)],
    }
    file = jbod.top / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": [part]}))
    return str(file)


def directory_of_first(jbod: Jbod) -> str:
    """The directory that has partition 0 of `demo`."""
    logs, _ = jbod.contents()
    (directory,) = [name for name, names in logs.items() if ("demo", 0) in names]
    return directory


def test_v10_replicas_move_between_directories(
    jbod: Jbod, jvm: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kafka's tools and ours move replicas, and report that the moves are complete."""
    with jbod.client() as client:
        for number in range(10):
            client.produce("demo", f"record {number}", partition=0)
    first = directory_of_first(jbod)
    second, third = sorted(set("abc") - {first})
    address = ("--bootstrap-server", jbod.node.address)

    def run_kafkas(tool: str, *words: str) -> str:
        done = jvm.tool(CLASSES[tool], *address, *words)
        assert done.exit_code == 0, done.stdout + done.stderr
        return done.stdout

    words = ("--reassignment-json-file", write_plan(jbod, second))
    throttle = ("--replica-alter-log-dirs-throttle", "10000000")
    shown = run_kafkas("kafka-reassign-partitions", *words, "--execute", *throttle)
    assert "Successfully started moving log directory to" in shown
    until(lambda: directory_of_first(jbod), second)
    shown = run_kafkas("kafka-reassign-partitions", *words, "--verify")
    assert "Reassignment of replica demo-0-1 completed successfully." in shown
    described = json.loads(run_kafkas("kafka-log-dirs", "--describe").splitlines()[-1])
    (broker,) = described["brokers"]
    log_dirs = [
        it["logDir"]
        for it in broker["logDirs"]
        for part in it["partitions"]
        if part["partition"] == "demo-0" and not part["isFuture"]
    ]
    assert log_dirs == [str(jbod.top / second)]

    command = ["reassign", *address, "--reassignment-json-file", write_plan(jbod, first)]
    assert main([*command, "--execute", "--wait", "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out) == {"started": ["demo-0"], "refused": {}}
    assert "Reassignment of replica demo-0-1 is completed." in output.err
    command = ["reassign", *address, "--reassignment-json-file", write_plan(jbod, third)]
    assert main([*command, "--execute", "--wait", *throttle]) == 0
    assert "Reassignment of replica demo-0-1 is completed." in capsys.readouterr().out
    assert directory_of_first(jbod) == third
    assert main([*command, "--verify"]) == 0
    assert "Cleared the throttles of broker 1" in capsys.readouterr().out
    jbod.restart()
    assert directory_of_first(jbod) == third
    with jbod.client() as client, client.consume("demo", "beginning", until_end=True) as records:
        values = [record.value for record in records if record.partition == 0]
    assert values == [b"record %d" % number for number in range(10)]


def test_cordoned_directories_take_no_new_replicas(jbod: Jbod) -> None:
    """KIP-1066: the setting is dynamic; a broker with no other directories gets no replicas."""

    names = (f"new-{number}" for number in count())

    def cordon(text: str) -> None:
        with jbod.client() as client:
            client.alter_configs("brokers", "1", {"cordoned.log.dirs": text})

    def cordoned() -> set[str]:
        with jbod.client() as client:
            (directories,) = client.log_dirs().values()
        return {it.log_dir[-1] for it in directories if it.is_cordoned}

    def create_another() -> int:
        """Create a topic with a new name; return the error code."""
        with jbod.client() as client:
            try:
                client.create_topic(next(names), partitions=6)
            except RefusedError as error:
                return error.code
        return 0

    cordon(f"{jbod.top / 'b'},{jbod.top / 'c'}")
    until(cordoned, {"b", "c"})
    assert create_another() == 0
    assert indexes(jbod.contents()[0]["a"], "new-0") == set(range(6))
    target = ({"b", "c"} - {directory_of_first(jbod)}).pop()
    with jbod.client() as client:
        ((_, refused),) = client.move_replicas({("demo", 0, 1): str(jbod.top / target)}).items()
    assert refused.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    cordon("*")
    until(create_another, ErrorCode.INVALID_REPLICATION_FACTOR)
    jbod.restart()
    until(cordoned, {"a", "b", "c"})
    until(create_another, ErrorCode.INVALID_REPLICATION_FACTOR)
    cordon("")
    until(create_another, 0)
