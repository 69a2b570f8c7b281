"""Nodes whose listeners have SASL, and the properties of their clients."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kraftlog.cli import main
from tests.ports import free_ports
from tests.server.node_process import NodeProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.certificates import Certificates

USER, PASSWORD = "alice", "alice-secret"
#: What brokers log in with, at each other and at controllers.
BROKER, BROKER_PASSWORD = "broker", "broker-secret"
_LOGIN = "org.apache.kafka.common.security"
_PLAIN, _SCRAM = f"{_LOGIN}.plain.PlainLoginModule", f"{_LOGIN}.scram.ScramLoginModule"
MODULES = {"PLAIN": _PLAIN, "SCRAM-SHA-256": _SCRAM, "SCRAM-SHA-512": _SCRAM}
MECHANISMS = tuple(MODULES)
SCRAM_MECHANISMS = MECHANISMS[1:]
#: Every password that a node below is given.
SECRETS = (PASSWORD, BROKER_PASSWORD)

#: Both listeners have SASL, for clients and for the node itself.
PROPERTIES = f"""\
process.roles=broker,controller
node.id={{node}}
listeners=CLIENTS://127.0.0.1:{{clients}},CONTROLLER://127.0.0.1:{{controller}}
listener.security.protocol.map=CLIENTS:{{protocol}},CONTROLLER:{{protocol}}
inter.broker.listener.name=CLIENTS
controller.listener.names=CONTROLLER
controller.quorum.voters={{voters}}
log.dirs={{folder}}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
kraftlog.http.port=0
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.controller.sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.clients.plain.sasl.jaas.config={_PLAIN} required username="{BROKER}" \
password="{BROKER_PASSWORD}" user_{BROKER}="{BROKER_PASSWORD}" user_{USER}="{PASSWORD}";
listener.name.controller.plain.sasl.jaas.config={_PLAIN} required username="{BROKER}" \
password="{BROKER_PASSWORD}" user_{BROKER}="{BROKER_PASSWORD}";
"""
_CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"
SCRAM_USER = f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"
SCRAM_USER_512 = f"SCRAM-SHA-512=[name={USER},iterations=8192,password={PASSWORD}]"


def login(mechanism: str = "PLAIN", password: str = PASSWORD, user: str = USER) -> dict[str, str]:
    """The properties of a client."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": (
            f'{MODULES[mechanism]} required username="{user}" password="{password}";'
        ),
    }


def write_properties(
    folder: Path, nodes: int = 1, more: str = "", certificates: Certificates | None = None
) -> list[str]:
    """The properties files of the nodes of a cluster, whose directories are formatted.

    With certificates all listeners have TLS, too.
    """
    protocol = "SASL_PLAINTEXT"
    if certificates is not None:
        protocol = "SASL_SSL"
        more += "".join([f"{key}={value}\n" for key, value in certificates.settings().items()])
    ports = free_ports(2 * nodes)
    voters = ",".join(f"{n + 1}@127.0.0.1:{ports[2 * n + 1]}" for n in range(nodes))
    paths = []
    for n in range(nodes):
        own = folder / f"node-{n + 1}"
        own.mkdir()
        path = own / "server.properties"
        values = {"node": n + 1, "clients": ports[2 * n], "controller": ports[2 * n + 1]}
        text = PROPERTIES.format(folder=own, voters=voters, protocol=protocol, **values)
        path.write_text(text + more)
        format_command = ["format", "-c", str(path), "-t", _CLUSTER_ID]
        for credential in (SCRAM_USER, SCRAM_USER_512):
            format_command += ["--add-scram", credential]
        assert main(format_command) == 0
        paths.append(str(path))
    return paths


@contextmanager
def sasl_node(
    folder: Path, more: str = "", certificates: Certificates | None = None
) -> Iterator[NodeProcess]:
    """One node, on whose listeners everybody has to log in."""
    [path] = write_properties(folder, more=more, certificates=certificates)
    node = NodeProcess(None, path, errors=str(folder / "errors.txt"), topics={})
    try:
        yield node
    finally:
        node.kill_if_running()


def metrics(node: NodeProcess) -> str:
    """The text of a node's /metrics."""
    from urllib.request import urlopen

    port = node.output().partition("http on 127.0.0.1:")[2].partition("\n")[0]
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LIMIT_S) as response:
        text: str = response.read().decode()
    return text
