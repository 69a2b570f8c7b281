"""Real processes between which links are cut: in both directions, in one, or between two."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.errors import ErrorCode
from tests.server.clients import TOPIC
from tests.server.links import LINKS, LinkedMachines, Links
from tests.server.raw import RawClient, produce
from tests.server.replication_load import (
    NODES,
    PARTITIONS,
    Writer,
    expect_acknowledged,
    until,
    write_with_confluent,
)
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = "replica.lag.time.max.ms=1000\n"


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LinkedMachines]:
    path = tmp_path / "links.json"
    monkeypatch.setenv(LINKS, str(path))
    links = Links(path)
    started = None
    try:
        started = LinkedMachines(tmp_path, links, *NODES, settings=SETTINGS)
        yield started
    finally:
        if started is not None:
            started.end()
        links.close()


def await_isr(machines: LinkedMachines, *nodes: int) -> None:
    """Wait until these nodes report each other, and no others, as in sync for every partition."""
    servers = ",".join([machines.nodes[node].address for node in nodes])
    with Client(servers, timeout_s=LIMIT_S) as client:
        until(
            lambda: all(
                {*each.isr} == {*nodes} and each.leader in nodes
                for each in client.describe_topic(TOPIC).partitions
            ),
            f"the ISR is {nodes}",
        )


def test_v9_a_leader_that_is_cut_off_commits_nothing(machines: LinkedMachines) -> None:
    """V1, V6, V9, C187: the leader is the active controller, too; its record is truncated later."""
    with Client(machines.servers, timeout_s=LIMIT_S) as client:
        until(lambda: len(client.describe_cluster().brokers) == len(NODES), "all brokers")
        first = client.describe_quorum().leader_id
        others = [node for node in NODES if node != first]
        client.create_topic(TOPIC, assignment={0: [first, *others]})
        client.produce(TOPIC, b"before")
        await_isr(machines, *NODES)
    machines.links.isolate(first)
    with RawClient(machines.nodes[first].port) as cut_off:
        cut_off.send(produce(1, b"of the former leader"))
        await_isr(machines, *others)
        servers = ",".join([machines.nodes[node].address for node in others])
        with Client(servers, timeout_s=LIMIT_S) as client:
            assert client.produce(TOPIC, b"after") == (0, 1)
        machines.links.restore()
        response = cut_off.next_produce_response()
        assert response is not None
        assert response[1] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await_isr(machines, *NODES)
    with (
        Client(machines.nodes[first].address, timeout_s=LIMIT_S) as client,
        client.consume(TOPIC, "beginning", until_end=True) as records,
    ):
        assert [record.value for record in records] == [b"before", b"after"]
    logs = [(machines.folder / f"data-{node}" / f"{TOPIC}-0").glob("*.log") for node in NODES]
    assert not any(b"of the former leader" in path.read_bytes() for log in logs for path in log)


@pytest.mark.long
def test_v7_acknowledged_records_survive_cut_links(machines: LinkedMachines) -> None:
    """V8, V9, C245: each node is cut off; then one node receives nothing; then one link is cut."""
    links = machines.links
    with Client(machines.servers, timeout_s=LIMIT_S) as client:
        until(lambda: len(client.describe_cluster().brokers) == len(NODES), "all brokers")
        client.create_topic(TOPIC, PARTITIONS)
    writer = Writer(write_with_confluent(machines.servers))
    try:
        for node in NODES:
            writer.await_more()
            links.isolate(node)
            await_isr(machines, *[each for each in NODES if each != node])
            writer.await_more()
            links.restore()
            await_isr(machines, *NODES)
        for pairs, connected in (([(1, 3), (2, 3)], 1), ([(1, 2), (2, 1)], 3)):
            links.cut(*pairs)
            until(partial(reports_a_smaller_isr, machines, connected), "a follower leaves the ISR")
            writer.await_more()
            links.restore()
            await_isr(machines, *NODES)
    finally:
        links.restore()
        writer.stop()
    assert writer.failures == []
    expect_acknowledged(machines, writer)


def reports_a_smaller_isr(machines: LinkedMachines, node: int) -> bool:
    """Whether the node reports a partition with a replica that is not in the ISR."""
    with Client(machines.nodes[node].address, timeout_s=LIMIT_S) as client:
        return any(len(each.isr) < len(NODES) for each in client.describe_topic(TOPIC).partitions)
