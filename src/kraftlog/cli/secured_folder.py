"""`kraftlog start --secure DIR`: the certificates, users and settings of a secured local cluster.

Everything that the cluster and its clients need is in one folder, which only its owner can read:

    ca.pem, ca.key      an authority of its own, which signs the certificates
    node.pem            the key and the certificate of all nodes; they are on one machine
    broker.properties   what brokers log in with
    client.properties   what clients need: the authority, and the login of a super user

Clients and brokers log in by SCRAM over TLS; controllers know brokers by their certificate, as
the users of the metadata log can't be asked before there is one. Users without ACLs may do nothing.
"""

from __future__ import annotations

import os

from kraftlog.cli.scram_credentials import scram_record
from kraftlog.config.authorizer import STANDARD_AUTHORIZER
from kraftlog.config.properties import parse
from kraftlog.errors import ConfigError
from kraftlog.sasl.jaas import parse_jaas
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraftlog.wire.messages.metadata_records import UserScramCredentialRecord

SUPER_USER, BROKER_USER = "admin", "broker"
#: The name in the certificate of all nodes.
NODE = "kraftlog-node"
MECHANISM = "SCRAM-SHA-512"
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
#: The listener of clients and brokers.
LISTENER = "CLIENTS"
_PASSWORD_BYTES = 24


class SecuredFolder(Value):
    """The folder and the passwords in it."""

    path: str
    broker_password: str
    #: Empty if the folder has it: then it is of no use to the nodes.
    new_password: str

    @classmethod
    def open(cls, path: str) -> SecuredFolder:
        """The folder of a cluster, or a new one with new passwords; writes nothing."""
        from secrets import token_urlsafe

        folder = cls(os.path.abspath(path), "", "")
        try:
            with open(folder.file("broker.properties"), encoding="utf-8") as file:
                pairs = parse(file.read())
        except FileNotFoundError:
            passwords = token_urlsafe(_PASSWORD_BYTES), token_urlsafe(_PASSWORD_BYTES)
            return cls(folder.path, *passwords)
        _, options = parse_jaas(pairs.get("sasl.jaas.config", ""))
        if not options.get("password"):
            raise ConfigError(f"{folder.file('broker.properties')}: it has no password")
        return folder.replace(broker_password=options["password"])

    def __repr__(self) -> str:
        return f"SecuredFolder({self.path})"

    def file(self, name: str) -> str:
        return f"{self.path}/{name}"

    @property
    def data(self) -> str:
        return self.file("data")

    @property
    def is_new(self) -> bool:
        return bool(self.new_password)

    def settings(self) -> dict[str, str]:
        """The properties of each node."""
        return {
            "listener.security.protocol.map": f"{LISTENER}:SASL_SSL,CONTROLLER:SSL",
            "inter.broker.listener.name": LISTENER,
            "ssl.keystore.location": self.file("node.pem"),
            "ssl.truststore.location": self.file("ca.pem"),
            "listener.name.controller.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"listener.name.{LISTENER.lower()}.{MECHANISM.lower()}.sasl.jaas.config": _jaas(
                BROKER_USER, self.broker_password
            ),
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": ";".join(
                [f"User:{name}" for name in (SUPER_USER, BROKER_USER, f"CN={NODE}")]
            ),
        }

    def credentials(self) -> tuple[UserScramCredentialRecord, ...]:
        """The users of a new cluster, as records of its metadata log."""
        users = (BROKER_USER, self.broker_password), (SUPER_USER, self.new_password)
        return tuple(
            scram_record(f"{MECHANISM}=[name={user},password={password}]")
            for user, password in users
        )

    def write(self, hosts: Iterable[str]) -> list[str]:
        """Make what is missing and renew the nodes' certificate in time; return log lines."""
        from kraftlog.tls.authority import Authority

        os.makedirs(self.path, mode=0o700, exist_ok=True)
        authority = Authority.open(self.file("ca.pem"), self.file("ca.key"))
        authority.certify(self.file("node.pem"), NODE, hosts)
        if not self.is_new:
            return []
        # The passwords come last, and with them the folder is no longer new.
        self._write_login("client.properties", SUPER_USER, self.new_password)
        self._write_login("broker.properties", BROKER_USER, self.broker_password)
        return [f"new certificates and users; clients need {self.file('client.properties')}"]

    def _write_login(self, name: str, user: str, password: str) -> None:
        from kraftlog.tls.authority import write_private

        pairs = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": _jaas(user, password),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.file("ca.pem"),
        }
        text = "".join([f"{key}={value}\n" for key, value in pairs.items()])
        write_private(self.file(name), text.encode())


def _jaas(user: str, password: str) -> str:
    return f'{_MODULE} required username="{user}" password="{password}";'
