"""A broker of Kafka with TLS and SASL, and the properties of clients that may connect to it."""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64encode
from contextlib import contextmanager
from hashlib import pbkdf2_hmac
from typing import TYPE_CHECKING

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from kraftlog import Client
from kraftlog.cli import main
from kraftlog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from tests.interop.kafka_broker import start_kafka
from tests.ports import free_ports
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

USER, PASSWORD = "alice", "alice-secret"
#: The numbers of the SCRAM mechanisms in Kafka's protocol, and their hash functions.
_SCRAM = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
_ITERATIONS = 4096
_LOGIN = "org.apache.kafka.common.security"
_MODULES = {
    "PLAIN": f"{_LOGIN}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_LOGIN}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_LOGIN}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule",
}
MECHANISMS = tuple(_MODULES)

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{plain},TLS://127.0.0.1:{tls},LOGIN://127.0.0.1:{login},\
OPEN://127.0.0.1:{open},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,TLS:SSL,LOGIN:SASL_SSL,OPEN:SASL_PLAINTEXT,\
CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
ssl.keystore.type=PEM
ssl.keystore.location={folder}/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
listener.name.tls.ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
connections.max.reauth.ms=3000
"""
_OF_LISTENER = """\
listener.name.{0}.plain.sasl.jaas.config={plain} required user_{user}="{password}";
listener.name.{0}.scram-sha-256.sasl.jaas.config={scram} required;
listener.name.{0}.scram-sha-512.sasl.jaas.config={scram} required;
listener.name.{0}.oauthbearer.sasl.jaas.config={oauth} required;
listener.name.{0}.oauthbearer.sasl.server.callback.handler.class=\
org.apache.kafka.common.security.oauthbearer.internals.unsecured.\
OAuthBearerUnsecuredValidatorCallbackHandler
"""


def write_certificate(authority: trustme.CA, path: str, identity: str) -> None:
    """Write `path.pem`, a key with its certificates, and `path.key`, as Java reads them."""
    issued = authority.issue_cert(identity)
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with open(f"{path}.pem", "wb") as file:
        file.write(pem + b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    with open(f"{path}.key", "wb") as file:
        file.write(pem)


class SecuredKafka:
    """The addresses of a broker's listeners, and the files of its clients."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        ports = free_ports(5)
        names = ("plain", "tls", "login", "open", "controller")
        self.ports = dict(zip(names, ports, strict=True))
        self.authority = trustme.CA()
        self.authority.cert_pem.write_to_path(self.file("ca.pem"))
        trustme.CA().cert_pem.write_to_path(self.file("other-ca.pem"))
        for name, identity in (("broker", "127.0.0.1"), ("client", "client")):
            write_certificate(self.authority, self.file(name), identity)
        with open(self.file("token.jwt"), "w", encoding="ascii") as file:
            file.write(unsigned_token(USER))

    def file(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def write_properties(self) -> str:
        modules = {"plain": _MODULES["PLAIN"], "scram": _MODULES["SCRAM-SHA-256"]}
        path = self.file("server.properties")
        with open(path, "w", encoding="utf-8") as file:
            file.write(_PROPERTIES.format(folder=self.folder, **self.ports))
            for listener in ("login", "open"):
                oauth = _MODULES["OAUTHBEARER"]
                user = {"user": USER, "password": PASSWORD, "oauth": oauth}
                file.write(_OF_LISTENER.format(listener, **modules, **user))
        return path

    def tls(self, **more: str) -> dict[str, str]:
        """The properties of a client with a certificate of its own, on the listener `tls`."""
        return {
            "security.protocol": "SSL",
            "ssl.truststore.location": self.file("ca.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.keystore.location": self.file("client.pem"),
            "ssl.keystore.type": "PEM",
            **more,
        }

    def login(self, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
        """The properties of a client on the listener `login`."""
        options = f'username="{USER}" password="{password}"'
        if mechanism == "OAUTHBEARER":
            options = ""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.location": self.file("ca.pem"),
            "ssl.truststore.type": "PEM",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{_MODULES[mechanism]} required {options};",
            "sasl.oauthbearer.token.endpoint.url": f"file://{self.file('token.jwt')}",
        }


@contextmanager
def secured_kafka(folder: str) -> Iterator[SecuredKafka]:
    """Start the broker, with its user."""
    broker = SecuredKafka(folder)
    path = broker.write_properties()
    assert main(["format", "-c", path, "--standalone"]) == 0
    with start_kafka(path, folder):
        _add_scram_user(broker)
        yield broker


def _add_scram_user(broker: SecuredKafka) -> None:
    with Client(broker.address("plain"), timeout_s=LIMIT_S) as client:
        for number, name in _SCRAM.values():  # a request may change a user only once
            credential = ScramCredentialUpsertion(
                name=USER,
                mechanism=number,
                iterations=_ITERATIONS,
                salt=b"salt",
                salted_password=pbkdf2_hmac(name, PASSWORD.encode(), b"salt", _ITERATIONS),
            )
            request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[credential])
            response = client.request("AlterUserScramCredentials", None, request)
            assert isinstance(response, AlterUserScramCredentialsResponse)
            assert [(each.user, each.error_code) for each in response.results] == [(USER, 0)]


def unsigned_token(subject: str) -> str:
    """A JWT without a signature, as Kafka's validator for tests takes it."""
    parts = ({"alg": "none"}, {"sub": subject, "iat": 0, "exp": 1 << 40})
    encoded = [urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, ""])
