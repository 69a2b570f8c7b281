"""Delegation tokens: Kafka's tool, clients that log in by a token, and outcomes as with Kafka."""

from __future__ import annotations

import re
from base64 import b64encode
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog import Client
from kraftlog.cli import main
from kraftlog.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from kraftlog.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kraftlog.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kraftlog.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.interop.kafka_broker import start_kafka
from tests.ports import free_ports
from tests.interop.tool_session import CLASSES
from tests.server.clients import TOPIC
from tests.server.node_process import NodeProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.interop.driver import Driver

pytestmark = pytest.mark.interop

SECRET, PASSWORD = "the-secret-of-all-tokens", "the-password-of-all-users"
USERS = ("admin", "alice", "bob", "carol")
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
TOOL = "org.apache.kafka.tools.DelegationTokenCommand"
PROPERTIES = f"""\
process.roles=broker,controller
node.id=1
listeners=OPEN://127.0.0.1:{{open}},CLIENTS://127.0.0.1:{{clients}},CONTROLLER://127.0.0.1:{{controller}}
listener.security.protocol.map=OPEN:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=OPEN
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{{controller}}
log.dirs={{folder}}/data
offsets.topic.replication.factor=1
sasl.enabled.mechanisms={",".join(MECHANISMS)}
listener.name.clients.scram-sha-256.sasl.jaas.config={MODULE} required;
listener.name.clients.scram-sha-512.sasl.jaas.config={MODULE} required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:admin
delegation.token.secret.key={SECRET}
delegation.token.max.lifetime.ms=600000
delegation.token.expiry.time.ms=300000
"""


class TokenNode:
    """A node of kraftlog or of Kafka, with users and tokens."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        opened, self.port, controller = free_ports(3)
        self.open_address, self.address = f"127.0.0.1:{opened}", f"127.0.0.1:{self.port}"
        self.path = str(folder / "server.properties")
        with open(self.path, "w", encoding="ascii") as file:
            file.write(
                PROPERTIES.format(
                    open=opened, clients=self.port, controller=controller, folder=folder
                )
            )
        command = ["format", "-c", self.path, "--standalone"]
        for user in USERS:
            for mechanism in MECHANISMS:
                command += ["--add-scram", f"{mechanism}=[name={user},password={PASSWORD}]"]
        assert main(command) == 0

    def properties(
        self,
        user: str,
        password: str = PASSWORD,
        more: str = "",
        mechanism: str = MECHANISMS[0],
    ) -> str:
        """The file of a client that logs in, for Kafka's tools."""
        path = self.folder / "client.properties"
        given = login(user, password, more, mechanism).items()
        lines = [f"{key}={value}\n" for key, value in given]
        path.write_text("".join(lines))
        return str(path)

    def client(self, user: str, password: str = PASSWORD, more: str = "", **other: Any) -> Client:
        security = login(user, password, more, **other)
        return Client(self.address, timeout_s=LIMIT_S, security=security)


def login(
    user: str, password: str = PASSWORD, more: str = "", mechanism: str = MECHANISMS[0]
) -> dict[str, str]:
    options = f'username="{user}" password="{password}"{more}'
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{MODULE} required {options};",
    }


BY_TOKEN = ' tokenauth="true"'


@contextmanager
def ours(folder: Path) -> Iterator[TokenNode]:
    node = TokenNode(folder)
    process = NodeProcess(None, node.path, errors=str(folder / "errors.txt"), topics={})
    try:
        yield node
    finally:
        process.kill_if_running()
        (folder / "output.txt").write_text(process.output())


@contextmanager
def theirs(folder: Path) -> Iterator[TokenNode]:
    node = TokenNode(folder)
    with start_kafka(node.path, str(folder)):
        yield node


def created(node: TokenNode, user: str = "alice", lifetime_ms: int = -1, **owner: str) -> Any:
    request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=lifetime_ms, **owner)
    with node.client(user) as client:
        response: Any = client.request("CreateDelegationToken", None, request)
    assert response.error_code == 0
    return response


# Kafka's tool ------------------------------------------------------------------------------------


def session(jvm: Driver, node: TokenNode) -> list[str]:
    """What the tool prints, without what differs between runs."""
    shown: list[str] = []

    def tool(user: str, *words: str) -> str:
        command = ["--bootstrap-server", node.address, "--command-config", node.properties(user)]
        done = jvm.tool(TOOL, *command, *words)
        text = re.sub(r"[\w+/-]{86}==", "HMAC", done.stdout)
        text = re.sub(r"\b[\w-]{22}\b", "ID", text)
        text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d", "TIME", text)
        error = done.stderr.partition("\n")[0]
        shown.append(f"{done.exit_code} {text} {error}")
        return done.stdout

    created = tool("alice", "--create", "--max-life-time-period", "-1", "--renewer-principal",
                   "User:bob")  # fmt: skip
    found = re.search(r"[\w+/-]{86}==", created)
    assert found, created
    hmac = found[0]
    tool("alice", "--describe")  # the tool then names no owners, and so gets none of their tokens
    for user in USERS:
        for owner in USERS:
            tool(user, "--describe", "--owner-principal", f"User:{owner}")
    for user in USERS:
        tool(user, "--renew", "--renew-time-period", "400000", "--hmac", hmac)
        tool(user, "--expire", "--expiry-time-period", "200000", "--hmac", hmac)
    tool("carol", "--create", "--max-life-time-period", "9", "--owner-principal", "User:alice")
    tool("admin", "--create", "--max-life-time-period", "90000", "--owner-principal", "User:carol")
    tool("bob", "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    tool("bob", "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    tool("alice", "--describe", "--owner-principal", "User:alice")
    return shown


def test_kafkas_tool_manages_tokens_as_with_kafka(
    kafka_jars: str, jvm: Driver, tmp_path: Path
) -> None:
    with ours(tmp_path / "ours") as node:
        shown = session(jvm, node)
    with theirs(tmp_path / "theirs") as node:
        expected = session(jvm, node)
    assert shown == expected
    # The session is not one of errors alone.
    assert sum("Total number of tokens : 1" in each for each in shown) == 6
    assert sum(each.startswith("1 ") for each in shown) == 6


# Logins ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafkas_clients_log_in_by_a_token(
    kafka_jars: str, jvm: Driver, tmp_path: Path, mechanism: str
) -> None:
    with ours(tmp_path / "ours") as node:
        token = created(node)
        with Client(node.open_address, timeout_s=LIMIT_S) as client:
            client.create_topic(TOPIC, partitions=1)
        acls = ["acls", "--bootstrap-server", node.open_address, "--add", "--topic", TOPIC]
        assert main([*acls, "--allow-principal", "User:alice", "--producer"]) == 0
        assert main([*acls, "--allow-principal", "User:alice", "--operation", "Read"]) == 0
        password = b64encode(token.hmac).decode()
        file = node.properties(token.token_id, password, BY_TOKEN, mechanism)
        server = ["--bootstrap-server", node.address, "--topic", TOPIC]
        done = jvm.tool(
            CLASSES["kafka-console-producer"],
            *server,
            "--command-config",
            file,
            stdin=b"one\ntwo\n",
        )
        assert done.ok().stderr == ""
        read = ["--partition", "0", "--offset", "earliest", "--max-messages", "2"]
        done = jvm.tool(CLASSES["kafka-console-consumer"], *server, *read, "--command-config", file)
        assert done.ok().stdout == "one\ntwo\n"
        # The same name and password are nobody's without the option.
        file = node.properties(token.token_id, password, "", mechanism)
        done = jvm.tool(CLASSES["kafka-topics"], "--bootstrap-server", node.address, "--list",
                        "--command-config", file)  # fmt: skip
        assert "SaslAuthenticationException" in done.stderr
        # By a token nobody gets another one.
        file = node.properties(token.token_id, password, BY_TOKEN, mechanism)
        done = jvm.tool(TOOL, "--bootstrap-server", node.address, "--command-config", file,
                        "--create", "--max-life-time-period", "-1")  # fmt: skip
        assert "Delegation Token requests are not allowed" in done.stderr
        log = (node.folder / "errors.txt").read_text()
    log += (node.folder / "output.txt").read_text()
    assert log
    for secret in (SECRET, PASSWORD, password, token.hmac.hex()):
        assert secret not in log
