"""Three nodes whose listeners all have SASL: they find each other, replicate and fail over."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.cli.scram_credentials import salted_from
from kraftlog.client.deadline import Deadline
from kraftlog.client.scram import alter_scram, describe_scram
from kraftlog.errors import AuthenticationError
from tests.certificates import Certificates
from tests.client.waiting import until
from tests.server.node_process import NodeProcess
from tests.server.sasl_node import login, metrics, write_properties
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

VALUES = [b"%d" % number for number in range(200)]
#: Nodes log in again and again, and all connections are replaced meanwhile.
MORE = "connections.max.reauth.ms=1500\ndefault.replication.factor=3\nmin.insync.replicas=2\n"


def produce(client: Client) -> None:
    with client.producer() as producer:
        for value in VALUES:
            producer.send("t", value)


def logins(node: NodeProcess) -> float:
    """Successful logins at a node since its start, on both listeners."""
    name = "kafka_server_socket_server_metrics_successful_authentication_total{"
    lines = [line for line in metrics(node).splitlines() if line.startswith(name)]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def may_log_in(address: str, security: dict[str, str]) -> bool:
    try:
        with Client(address, timeout_s=LIMIT_S, security=security) as client:
            client.describe_cluster()
    except AuthenticationError:
        return False
    return True


@pytest.mark.long
@pytest.mark.parametrize("has_tls", [False, True])
def test_a_cluster_of_sasl_listeners_fails_over(tmp_path: Path, has_tls: bool) -> None:
    """Without the controller that was told of a user, the others still know the user."""
    from concurrent.futures import ThreadPoolExecutor

    certificates = Certificates(tmp_path) if has_tls else None
    paths = write_properties(tmp_path, 3, MORE, certificates)

    def login_of(*arguments: str) -> dict[str, str]:
        properties = login(*arguments)
        if certificates is None:
            return properties
        return {**properties, **certificates.properties(), "security.protocol": "SASL_SSL"}

    def start(path: str) -> NodeProcess:
        return NodeProcess(None, path, errors=f"{path}.errors", topics={})

    with ThreadPoolExecutor(3) as pool:  # none is ready before a majority has started
        nodes = list(pool.map(start, paths))
    try:
        with Client(
            nodes[0].address, timeout_s=LIMIT_S, security=login_of("SCRAM-SHA-512")
        ) as client:
            client.create_topic("t", partitions=3, replication_factor=3)
            produce(client)
            alter_scram(client, "carol", upserted=salted_from("SCRAM-SHA-256", "password=first"))
            leader = client.describe_quorum().leader_id
        others = [node for number, node in enumerate(nodes, 1) if number != leader]
        carol = login_of("SCRAM-SHA-256", "first", "carol")
        for node in others:  # the controller answers before each broker has replayed the record
            until(partial(may_log_in, node.address, carol), True)
        nodes[leader - 1].kill()
        servers = ",".join(node.address for node in others)
        before, deadline = [logins(node) for node in others], Deadline(LIMIT_S)
        with Client(servers, timeout_s=LIMIT_S, security=carol) as client:
            produce(client)
            while any(logins(node) < n + 6 for node, n in zip(others, before, strict=True)):
                assert not deadline.is_over, "sessions end after 1.5 s: nodes log in again"
                produce(client)
            assert all(each.leader != leader for each in client.describe_topic("t").partitions)
            with client.consume("t", start="beginning", until_end=True) as records:
                assert len(list(records)) >= 2 * len(VALUES)
        nodes[leader - 1] = start(paths[leader - 1])
        with Client(nodes[leader - 1].address, timeout_s=LIMIT_S, security=carol) as client:
            assert describe_scram(client, ["carol"]) == {"carol": {"SCRAM-SHA-256": 4096}}
        for node in nodes:
            assert node.stop() == 0
            assert "refuses this node's login" not in node.output()
    finally:
        for node in nodes:
            node.kill_if_running()
