"""V22: a node is killed while a log moves to another directory, and loses one of the disks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraftlog.client.deadline import Deadline
from kraftlog.storage.future_logs import FUTURE, WHOLE
from tests.server.node_process import create_topics
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum, format_node
from tests.server.test_several_directories import PARTITIONS, Jbod
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Enough for a copy of many turns.
RECORDS, VALUE = 60, bytes(100_000)
SOURCE, TARGET = "b", "c"
CONTROLLER = CONTROLLERS[0]


class JbodWithController(Jbod):
    """A broker with three log directories, and its controller in another process."""

    def __init__(self, top: Path) -> None:
        self.quorum = Quorum(top, dynamic=True)
        file = Path(self.quorum.file(BROKER))
        paths = ",".join([str(top / name) for name in "abc"])
        file.write_text(file.read_text().replace(self.quorum.data(BROKER), paths))
        format_node(str(file), "--no-initial-controllers")
        self.quorum.start(CONTROLLER)
        super().__init__(top)
        create_topics(self.node.port, {"demo": PARTITIONS})

    def start(self) -> None:
        self.quorum.start(BROKER)
        self.node = self.quorum.nodes[BROKER]


class MovingLog:
    """A partition of `demo` in one directory, and the values that its producer knows to be stored.

    `a` has the metadata log, so the log moves from `b` to `c`.
    """

    def __init__(self, jbod: Jbod, broker: int = 1) -> None:
        self.jbod = jbod
        self.broker = broker
        logs, _ = jbod.contents()
        self.index = min(name[1] for name in logs[SOURCE] if name[0] == "demo")
        self.acknowledged: list[bytes] = []
        for number in range(RECORDS):
            self.append(b"%d" % number + VALUE)

    def append(self, value: bytes) -> None:
        with self.jbod.client() as client:
            client.produce("demo", value, partition=self.index)
        self.acknowledged.append(value)

    def begin(self) -> None:
        with self.jbod.client() as client:
            path = str(self.jbod.top / TARGET)
            assert client.move_replicas({("demo", self.index, self.broker): path}) == {}

    def folders(self, directory: str) -> list[Path]:
        return [
            path
            for path in (self.jbod.top / directory).glob(f"demo-{self.index}*")
            if not path.name.endswith("-delete")
        ]

    def is_online(self) -> bool:
        with self.jbod.client() as client:
            return client.describe_topic("demo").partitions[self.index].leader >= 0

    def check(self) -> None:
        """Every acknowledged record can be read."""
        with (
            self.jbod.client() as client,
            client.consume("demo", "beginning", until_end=True, partitions=[self.index]) as records,
        ):
            found = [record.value for record in records]
        assert [value for value in found if value in self.acknowledged] == self.acknowledged


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MovingLog]:
    jbod = Jbod(tmp_path)
    try:
        yield MovingLog(jbod)
    finally:
        jbod.node.kill_if_running()


def is_being_copied(log: MovingLog) -> bool:
    return any(path.name.endswith(FUTURE) for path in log.folders(TARGET))


def is_copied(log: MovingLog) -> bool:
    return any((path / WHOLE).exists() for path in log.folders(TARGET)) or has_moved(log)


def has_moved(log: MovingLog) -> bool:
    return any(path.name == f"demo-{log.index}" for path in log.folders(TARGET))


@pytest.mark.parametrize("lost", [SOURCE, TARGET])
@pytest.mark.parametrize("moment", [is_being_copied, is_copied, has_moved])
def test_v22_no_record_is_lost_with_either_disk_during_a_move(
    log: MovingLog, moment: Callable[[MovingLog], bool], lost: str
) -> None:
    log.begin()
    await_moment(log, moment)
    log.append(b"meanwhile")
    log.jbod.node.kill()
    check_without_and_with(log, lost)


@pytest.mark.parametrize("lost", [SOURCE, TARGET])
def test_v22_a_move_is_not_complete_without_the_controller(tmp_path: Path, lost: str) -> None:
    """The controller is away; then the broker is killed, and one of the disks is gone."""
    jbod = JbodWithController(tmp_path)
    nodes = jbod.quorum.nodes
    try:
        log = MovingLog(jbod, BROKER)
        nodes[CONTROLLER].kill()
        log.begin()
        await_moment(log, is_copied)
        log.append(b"meanwhile")
        assert not has_moved(log)
        nodes[BROKER].kill()
        jbod.quorum.start(CONTROLLER)
        check_without_and_with(log, lost)
    finally:
        for node in nodes.values():
            node.kill_if_running()


def await_moment(log: MovingLog, moment: Callable[[MovingLog], bool]) -> None:
    deadline = Deadline(LIMIT_S)
    while not moment(log):
        assert not deadline.is_over
        deadline.pause(0.001)


def check_without_and_with(log: MovingLog, lost: str) -> None:
    """V19: without the disk the partition has all records, or no leader; with it, all records."""
    jbod = log.jbod
    (jbod.top / lost).rename(jbod.top / "taken out")
    (jbod.top / lost).write_text("a file instead of a directory")
    jbod.start()
    if log.is_online():
        log.check()
        log.append(b"without a disk")
    jbod.node.kill()

    (jbod.top / lost).unlink()
    (jbod.top / "taken out").rename(jbod.top / lost)
    jbod.start()
    assert log.is_online()
    log.check()
    log.append(b"with both disks")
    log.check()
