"""Nodes of Kafka and kraftlog with the same listeners for TLS and SCRAM, and what clients need."""

from __future__ import annotations

import os
import subprocess

from tests.ports import free_ports

from bench.beside.frame_client import LOOPBACK
from bench.beside.peers import CLUSTER_ID, HEAP, Peer, format_kafka, java, kraftlog, write
from bench.beside.rows import KAFKA, PEERS
from kraftlog import Client
from kraftlog.cli.scram_credentials import salted_from
from kraftlog.client.scram import alter_scram
from kraftlog.client.security import Security
from kraftlog.tls.authority import Authority

MECHANISM = "SCRAM-SHA-512"
USER, PASSWORD = "bench", "bench-secret"
#: Kafka's default.
ITERATIONS = 4096
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{plain},TLS://127.0.0.1:{tls},LOGIN://127.0.0.1:{login},\
CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,TLS:SSL,LOGIN:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={folder}/data
offsets.topic.replication.factor=1
ssl.keystore.type=PEM
ssl.keystore.location={certificates}/node.pem
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.login.scram-sha-512.sasl.jaas.config={module} required;
"""
#: Whoever is not logged in may do everything until there are ACLs, and then what they allow.
AUTHORIZER = """\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
"""


class SecuredNode(Peer):
    """A node with a listener of each kind; `port` is that without TLS and login."""

    def __init__(self, name: str, folder: str, certificates: str, extra: str = "") -> None:
        os.mkdir(folder)
        listeners = ("plain", "tls", "login", "controller", "http")
        ports = dict(zip(listeners, free_ports(len(listeners)), strict=True))
        self._certificates = certificates
        self.tls_address = f"{LOOPBACK}:{ports['tls']}"
        self.login_port = ports["login"]
        self.http_port = ports["http"]
        text = _PROPERTIES.format(folder=folder, certificates=certificates, module=_MODULE, **ports)
        file = f"{folder}/server.properties"
        if name == KAFKA:
            write(file, text + extra)
            format_kafka(file, "--standalone")
            command = java(folder, "kafka.Kafka", file, heap=HEAP)
        else:
            write(file, f"{text}{extra}kraftlog.http.port={self.http_port}\n")
            formatting = [*kraftlog(), "format", "-t", CLUSTER_ID, "-c", file, "--standalone"]
            subprocess.run(formatting, check=True, stdout=subprocess.DEVNULL)
            command = [*kraftlog(), "start", file]
        super().__init__(name, command, ports["plain"], f"{folder}/log")

    @property
    def librdkafka_tls(self) -> tuple[str, ...]:
        """The settings of librdkafka for the listener with TLS."""
        return ("security.protocol=ssl", f"ssl.ca.location={self._certificates}/ca.pem")


def login(certificates: str) -> Security:
    """How clients log in over TLS."""
    return Security(
        {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": f"{certificates}/ca.pem",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f'{_MODULE} required username="{USER}" password="{PASSWORD}";',
        }
    )


def write_certificates(folder: str) -> str:
    """An authority and the certificate of all nodes; returns their folder."""
    path = os.path.join(folder, "certificates")
    os.mkdir(path)
    authority = Authority.open(f"{path}/ca.pem", f"{path}/ca.key")
    authority.certify(f"{path}/node.pem", "node", [LOOPBACK])
    return path


def secured_nodes(
    folder: str, certificates: str, kind: str, extra: str = ""
) -> tuple[SecuredNode, ...]:
    """A node of each broker, with these further properties."""
    return tuple(
        SecuredNode(name, os.path.join(folder, f"{kind}-{name}"), certificates, extra)
        for name in PEERS
    )


def add_user(node: SecuredNode) -> None:
    """Add the user as whom clients log in."""
    credential = salted_from(MECHANISM, f"[iterations={ITERATIONS},password={PASSWORD}]")
    with Client(node.address) as client:
        alter_scram(client, USER, upserted=credential)
