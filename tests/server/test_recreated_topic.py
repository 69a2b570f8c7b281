"""A topic is deleted and recreated; a node is killed before or afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kraftlog.client.client import Client
from kraftlog.client.deadline import Deadline
from tests.server.local_cluster import LocalCluster
from tests.server.node_process import NodeProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable


def values(client: Client) -> list[bytes | None]:
    with client.consume("demo", "beginning", until_end=True) as consumer:
        return [record.value for record in consumer]


def test_v15_acknowledged_records_of_a_recreated_topic_survive_kill_9(tmp_path: Path) -> None:
    data, errors = str(tmp_path / "data"), str(tmp_path / "errors.txt")
    node = NodeProcess(data, errors=errors)
    try:
        with Client(node.address) as client:
            with client.producer() as producer:
                for number in range(100):
                    producer.send("demo", b"old %d" % number)
            assert client.delete_records({("demo", 0): 90}) == {("demo", 0): 90}
            client.delete_topic("demo")
            client.create_topic("demo")
            with client.producer() as producer:
                for number in range(10):
                    producer.send("demo", b"new %d" % number)
        node.kill()
        node = NodeProcess(data, errors=errors, topics={})
        with Client(node.address) as client:
            assert values(client) == [b"new %d" % number for number in range(10)]
        assert node.logged_errors() == []
    finally:
        node.kill_if_running()


def log_of(cluster: LocalCluster, node: int) -> bytes:
    """The bytes of the log of a node's replica of `demo`."""
    folder = Path(cluster.data) / f"node-{node}" / "demo-0"
    return b"".join([path.read_bytes() for path in folder.glob("*.log")])


def write(client: Client, value: bytes) -> None:
    with client.producer() as producer:
        for number in range(10):
            producer.send("demo", value + b" %d" % number)


def test_v4_a_broker_that_was_away_never_serves_the_old_topic(tmp_path: Path) -> None:
    """V4, C259: its log of the old topic becomes a stray, although longer than the new one."""
    absent, nodes = 3, (1, 2, 3)
    cluster = LocalCluster(tmp_path)

    def until(is_so: Callable[[], bool], what: str) -> None:
        deadline = Deadline(LIMIT_S)
        while not is_so():
            assert not deadline.is_over, f"{what}\n{cluster.output()}"
            deadline.pause(0.02)

    def in_sync(count: int) -> Callable[[], bool]:
        return lambda: len(client.describe_topic("demo").partitions[0].isr) == count

    try:
        with Client(cluster.servers, timeout_s=LIMIT_S) as client:
            client.create_topic("demo", assignment={0: [absent, 1, 2]})
            for _ in range(2):
                write(client, b"old")
            until(lambda: b"old 9" in log_of(cluster, absent), "the log of the old topic")
            cluster.kill(absent)
        with Client(
            ",".join([cluster.address(node) for node in (1, 2)]), timeout_s=LIMIT_S
        ) as client:
            client.delete_topic("demo")
            # The absent broker is the preferred leader of the new topic, too.
            client.create_topic("demo", assignment={0: [1, 2]})
            assert client.reassign_partitions({("demo", 0): [absent, 1, 2]}) == {}
            write(client, b"new")
            assert b"old" in log_of(cluster, absent)
            cluster.restart(absent)
            until(in_sync(3), "every replica is in sync")
            client.elect_preferred_leaders([("demo", 0)])
            until(
                lambda: client.describe_topic("demo").partitions[0].leader == absent,
                "the returned broker leads",
            )
            assert values(client) == [b"new %d" % number for number in range(10)]
        assert not any(b"old" in log_of(cluster, node) for node in nodes)
        assert "belongs to a former topic of this name" in cluster.output()
    finally:
        cluster.end()
