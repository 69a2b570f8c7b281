"""A node is killed after a topic was deleted and created again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.client.client import Client
from tests.server.node_process import NodeProcess

if TYPE_CHECKING:
    from pathlib import Path


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
        assert node.complaints() == []
    finally:
        node.make_sure_it_is_gone()
