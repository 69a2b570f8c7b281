"""A node of kraftlog and a broker of Kafka with the same `server.properties`."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trustme

from kraftlog.cli import main
from tests.interop.kafka_broker import start_kafka
from tests.interop.logins.cases import MECHANISMS, PASSWORD, TOPIC, USER
from tests.interop.secured_kafka import write_certificate
from tests.ports import free_ports
from tests.server.node_process import NodeProcess, create_topics
from tests.tokens import AUDIENCE, ISSUER, claims, jwk, jwks, now_s, token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

_LOGIN = "org.apache.kafka.common.security"
_OAUTH = f"{_LOGIN}.oauthbearer"
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAIN://127.0.0.1:{plain},TLS://127.0.0.1:{tls},LOGIN://127.0.0.1:{login},\
OPEN://127.0.0.1:{open},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAIN:PLAINTEXT,TLS:SSL,LOGIN:SASL_SSL,OPEN:SASL_PLAINTEXT,\
CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAIN
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
log.dirs={folder}/data
offsets.topic.replication.factor=1
ssl.keystore.type=PEM
ssl.keystore.location={folder}/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
listener.name.tls.ssl.client.auth=required
sasl.enabled.mechanisms={mechanisms}
"""
_OF_LISTENER = f"""\
listener.name.{{0}}.plain.sasl.jaas.config={_LOGIN}.plain.PlainLoginModule required \
user_{USER}="{PASSWORD}";
listener.name.{{0}}.scram-sha-256.sasl.jaas.config={_LOGIN}.scram.ScramLoginModule required;
listener.name.{{0}}.scram-sha-512.sasl.jaas.config={_LOGIN}.scram.ScramLoginModule required;
listener.name.{{0}}.oauthbearer.sasl.jaas.config={_OAUTH}.OAuthBearerLoginModule required;
listener.name.{{0}}.oauthbearer.sasl.server.callback.handler.class=\
{_OAUTH}.OAuthBearerValidatorCallbackHandler
listener.name.{{0}}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url={{url}}
listener.name.{{0}}.oauthbearer.sasl.oauthbearer.expected.audience={AUDIENCE}
listener.name.{{0}}.oauthbearer.sasl.oauthbearer.expected.issuer={ISSUER}
"""


@dataclass(frozen=True)
class Listeners:
    """The addresses of a node, and what its clients have."""

    tls: str
    login: str
    open: str
    ca: str
    other_ca: str
    certificate: str
    key: str
    #: Tokens by "right" and "wrong", which are also in files of the folder.
    tokens: dict[str, str]
    folder: str

    def token_url(self, word: str) -> str:
        return f"file://{self.folder}/{word}.jwt"


@contextmanager
def kraftlog_node(folder: str) -> Iterator[Listeners]:
    with _node(folder, _started_kraftlog) as listeners:
        yield listeners


@contextmanager
def kafka_broker(folder: str) -> Iterator[Listeners]:
    with _node(folder, start_kafka) as listeners:
        yield listeners


@contextmanager
def _node(
    folder: str, start: Callable[[str, str], AbstractContextManager[object]]
) -> Iterator[Listeners]:
    """A started node with the topic."""
    names = ("plain", "tls", "login", "open", "controller")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    os.mkdir(folder)
    _write_certificates(folder)
    with open(f"{folder}/keys.json", "wb") as keys:
        keys.write(jwks(jwk()))
    path = f"{folder}/server.properties"
    with open(path, "w", encoding="utf-8") as file:
        file.write(_PROPERTIES.format(folder=folder, mechanisms=",".join(MECHANISMS), **ports))
        file.writelines(
            _OF_LISTENER.format(listener, url=keys_url(folder)) for listener in ("login", "open")
        )
    users = [f"{each}=[name={USER},password={PASSWORD}]" for each in MECHANISMS if "SCRAM" in each]
    scram = [word for user in users for word in ("--add-scram", user)]
    assert main(["format", "-c", path, "--standalone", *scram]) == 0
    expired = claims(exp=now_s() - 90, iat=now_s() - 900)
    tokens = {"right": token(), "wrong": token(expired)}
    for word, text in tokens.items():
        with open(f"{folder}/{word}.jwt", "w", encoding="ascii") as file:
            file.write(text)
    with start(path, folder):
        create_topics(ports["plain"], {TOPIC: 1})
        yield Listeners(
            tls=f"127.0.0.1:{ports['tls']}",
            login=f"127.0.0.1:{ports['login']}",
            open=f"127.0.0.1:{ports['open']}",
            ca=f"{folder}/ca.pem",
            other_ca=f"{folder}/other-ca.pem",
            certificate=f"{folder}/client.pem",
            key=f"{folder}/client.key",
            tokens=tokens,
            folder=folder,
        )


def keys_url(folder: str) -> str:
    """Where a node in this folder has the keys of tokens."""
    return f"file://{folder}/keys.json"


@contextmanager
def _started_kraftlog(path: str, folder: str) -> Iterator[None]:
    node = NodeProcess(None, path, errors=f"{folder}/errors.txt", topics={})
    try:
        yield
    finally:
        node.kill_if_running()


def _write_certificates(folder: str) -> None:
    """An authority, another one, and the keys of the broker and of a client, as Java reads."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(f"{folder}/ca.pem")
    trustme.CA().cert_pem.write_to_path(f"{folder}/other-ca.pem")
    for name, identity in (("broker", "127.0.0.1"), ("client", "client")):
        write_certificate(authority, f"{folder}/{name}", identity)
