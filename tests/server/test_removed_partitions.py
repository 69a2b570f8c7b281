"""V11 with real processes: partitions are removed and added again while a broker is away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraftlog import Client
from kraftlog.cli import main
from kraftlog.client.deadline import Deadline
from tests.server.clients import TOPIC
from tests.server.local_cluster import LocalCluster
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

ABSENT = 3
OTHERS = (1, 2)


def until(is_so: Callable[[], Any], what: str) -> None:
    deadline = Deadline(LIMIT_S)
    while not is_so():
        assert not deadline.is_over, what
        deadline.pause(0.02)


def log_of(cluster: LocalCluster, node: int, partition: int) -> bytes:
    """The bytes of a replica's log; empty if there is no log."""
    paths = Path(cluster.data).glob(f"*{node}*/**/{TOPIC}-{partition}/*.log")
    return b"".join([path.read_bytes() for path in paths])


def write(client: Client, value: bytes) -> None:
    with client.producer() as producer:
        for partition in range(len(client.describe_topic(TOPIC).partitions)):
            for _ in range(3):
                producer.send(TOPIC, value, partition=partition)


def values(client: Client, partition: int) -> list[bytes | None]:
    with client.consume(TOPIC, "beginning", partitions=[partition], until_end=True) as records:
        return [record.value for record in records]


def test_v11_a_returning_broker_deletes_removed_partitions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = LocalCluster(tmp_path)
    try:
        with Client(cluster.servers, timeout_s=LIMIT_S) as client:
            client.create_topic(TOPIC, 3)
            write(client, b"old")
            until(
                lambda: all(b"old" in log_of(cluster, ABSENT, index) for index in range(3)),
                "the records are on every replica",
            )
            cluster.kill(ABSENT)
        with Client(
            ",".join([cluster.address(node) for node in OTHERS]), timeout_s=LIMIT_S
        ) as client:
            until(lambda: client.describe_quorum().leader_id in OTHERS, "a leader")
            active = client.describe_quorum().leader_id
            # A broker that is not the active controller forwards the removal to it.
            [forwarder] = {*OTHERS} - {active}
            servers = cluster.address(forwarder)
            fewer = ["topics", "--alter", "--topic", TOPIC, "--partitions", "1"]
            assert main([*fewer, "--bootstrap-server", servers]) == 1
            assert "3 partitions; --remove-partitions deletes" in capsys.readouterr().err
            assert main([*fewer, "--remove-partitions", "--bootstrap-server", servers]) == 0
            until(
                lambda: len(client.describe_topic(TOPIC).partitions) == 1,
                "Metadata shows one partition",
            )
            client.create_partitions(TOPIC, 2)
            write(client, b"new")
            assert values(client, 1) == [b"new"] * 3
            cluster.restart(ABSENT)
            until(
                lambda: all(len(each.isr) == 3 for each in client.describe_topic(TOPIC).partitions),
                "every replica is in sync",
            )
            assert values(client, 0) == [b"old"] * 3 + [b"new"] * 3
        nodes = (*OTHERS, ABSENT)
        until(
            lambda: all(log_of(cluster, node, 1).count(b"new") == 3 for node in nodes),
            "every replica has the new records",
        )
        assert not any(b"old" in log_of(cluster, node, 1) for node in nodes)
        until(lambda: not any(log_of(cluster, node, 2) for node in nodes), "no log of partition 2")
        cluster.await_line(f"{TOPIC}-1: deleted, because it belongs to a partition")
    finally:
        cluster.end()
