"""Delegation tokens: Kafka's tool, clients that log in by a token, and outcomes as with Kafka."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog import Client
from kraftlog.authorization.acls import AclFilter
from kraftlog.cli import main
from kraftlog.client import acls
from kraftlog.client.deadline import Deadline
from kraftlog.client.delegation_tokens import describe_tokens
from kraftlog.errors import ErrorCode
from kraftlog.sasl import scram as rules
from kraftlog.sasl.delegation_tokens import password_of
from kraftlog.wire.apis import ApiKey
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
from kraftlog.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.interop.kafka_broker import KafkaNodes, start_kafka
from tests.interop.tool_session import CLASSES
from tests.ports import free_ports
from tests.server.clients import TOPIC
from tests.server.node_process import NodeProcess
from tests.server.quorum_of_processes import format_node
from tests.server.sasl_raw import Raw
from tests.time_limit import LIMIT_S
from tests.tokens import now_s

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from tests.interop.driver import Driver

pytestmark = pytest.mark.interop

SECRET, PASSWORD = "the-secret-of-all-tokens", "the-password-of-all-users"
#: Times are compared in this unit: much more than a test takes.
UNIT_MS = 600_000
EXPIRED = "a token that has expired, and is not removed yet"
USERS = ("admin", "alice", "bob", "carol")
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
TOOL = "org.apache.kafka.tools.DelegationTokenCommand"
PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=OPEN://127.0.0.1:{open},CLIENTS://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=OPEN:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=OPEN
"""
#: What all nodes have, whatever their roles.
COMMON = f"""\
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
delegation.token.max.lifetime.ms={20 * UNIT_MS}
delegation.token.expiry.time.ms={10 * UNIT_MS}
"""


class TokenNode:
    """A node of kraftlog or of Kafka, with users and tokens."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        names = ("open", "clients", "controller")
        self.ports = dict(zip(names, free_ports(3), strict=True))
        self.port = self.ports["clients"]
        self.open_address = f"127.0.0.1:{self.ports['open']}"
        self.address = f"127.0.0.1:{self.port}"
        self.path = str(folder / "server.properties")
        with open(self.path, "w", encoding="ascii") as file:
            file.write((PROPERTIES + COMMON).format(folder=folder, **self.ports))

    def format(self) -> None:
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

    def ends(self) -> dict[str, int]:
        """When each token expires that the broker has replayed, by HMAC."""
        with self.client("admin") as client:
            return {token.hmac: token.expires_ms for token in describe_tokens(client)}

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
    node.format()
    process = NodeProcess(None, node.path, errors=str(folder / "errors.txt"), topics={})
    try:
        yield node
    finally:
        process.kill_if_running()
        (folder / "output.txt").write_text(process.output())


@contextmanager
def theirs(folder: Path) -> Iterator[TokenNode]:
    node = TokenNode(folder)
    node.format()
    with start_kafka(node.path, str(folder)):
        yield node


def created(node: TokenNode, user: str = "alice", lifetime_ms: int = -1, **owner: str) -> Any:
    request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=lifetime_ms, **owner)
    with node.client(user) as client:
        response: Any = client.request("CreateDelegationToken", None, request)
    assert response.error_code == 0
    return response


def wait_until(is_so: Callable[[], bool]) -> None:
    """A broker of Kafka answers before it has replayed a change."""
    deadline = Deadline(LIMIT_S)
    while not is_so():
        assert not deadline.is_over
        deadline.pause(0.01)


# Kafka's tool ------------------------------------------------------------------------------------


def session(jvm: Driver, node: TokenNode) -> list[str]:
    """What the tool prints, without what differs between runs."""
    shown: list[str] = []

    def tool(user: str, *words: str) -> str:
        command = ["--bootstrap-server", node.address, "--command-config", node.properties(user)]
        before = node.ends()
        done = jvm.tool(TOOL, *command, *words)
        if done.exit_code == 0 and "--describe" not in words:
            wait_until(lambda: node.ends() != before)
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
        tool(user, "--renew", "--renew-time-period", f"{2 * UNIT_MS}", "--hmac", hmac)
        tool(user, "--expire", "--expiry-time-period", f"{UNIT_MS}", "--hmac", hmac)
    tool("carol", "--create", "--max-life-time-period", "9", "--owner-principal", "User:alice")
    tool(
        "admin",
        "--create",
        "--max-life-time-period",
        f"{UNIT_MS}",
        "--owner-principal",
        "User:carol",
    )
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


# Outcomes ----------------------------------------------------------------------------------------


class Outcomes:
    """What a node answers, without what differs between runs."""

    def __init__(self, node: TokenNode) -> None:
        self._node = node
        self.found: dict[str, Any] = {}
        #: When each token expires, by HMAC, and how many ACLs there are.
        self._ends: dict[bytes, int] = {}
        self._acls = 0

    def ask(self, what: str, by: str, request: Any, version: int | None = None, **more: Any) -> Any:
        api = type(request).__name__.removesuffix("Request")
        client = (
            Client(self._node.open_address, timeout_s=LIMIT_S)
            if by == "nobody"
            else self._node.client(by, **more)
        )
        with client:
            response: Any = client.request(api, version, request)
        fields = {
            name: plain(getattr(response, name))
            for name in response._fields
            if name != "throttle_time_ms"
        }
        self.found[f"{by}: {what}"] = fields
        if not response.error_code:
            self._await_end(request, response)
        return response

    def _await_end(self, request: Any, response: Any) -> None:
        """Wait until a broker of Kafka, which answers first, has replayed a change of a token."""
        if isinstance(request, CreateDelegationTokenRequest):
            self._ends[response.hmac] = response.expiry_timestamp_ms
        elif isinstance(request, DescribeDelegationTokenRequest):
            return
        elif getattr(request, "expiry_time_period_ms", 0) < 0:
            del self._ends[request.hmac]
        else:
            self._ends[request.hmac] = response.expiry_timestamp_ms
        ends = {password_of(hmac): end_ms for hmac, end_ms in self._ends.items()}
        wait_until(lambda: self._node.ends() == ends)

    def grant(self, user: str, option: str, resource: str, *operations: str) -> None:
        command = ["acls", "--bootstrap-server", self._node.open_address, "--add"]
        words = [word for each in operations for word in ("--operation", each)]
        assert main([*command, "--allow-principal", f"User:{user}", option, resource, *words]) == 0
        self._acls += len(operations)
        count = self._acls
        with Client(self._node.open_address, timeout_s=LIMIT_S) as client:

            def is_replayed() -> bool:
                return sum(map(len, acls.describe(client.cluster, AclFilter()).values())) == count

            wait_until(is_replayed)

    def log_in(self, what: str, token_id: str, password: str, extension: str) -> None:
        """The errors of a login, the length of its session, and whether requests are served."""
        with Raw(self._node.port) as raw:
            raw.handshake("SCRAM-SHA-256")
            exchange = scram(token_id, password, extension)
            message, response = next(exchange), None
            while response is None or (response.auth_bytes and message):
                request = SaslAuthenticateRequest(auth_bytes=message)
                response = raw.call(ApiKey.SASL_AUTHENTICATE, 2, request)
                message = b""
                if not response.error_code:
                    with suppress(StopIteration):
                        message = exchange.send(bytes(response.auth_bytes))
            self.found[f"login: {what}"] = [
                response.error_code,
                response.error_message,
                round(response.session_lifetime_ms / UNIT_MS),
                not response.error_code and raw.serves,
            ]


def scram(user: str, password: str, extension: str) -> Generator[bytes, bytes, None]:
    """The messages of a client, with an extension after its nonce."""
    first = f"n={user},r=nonce{extension}"
    server_first = yield f"n,,{first}".encode()
    fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
    salt = b64decode(fields["s"])
    salted = rules.salted_password("SCRAM-SHA-256", password, salt, int(fields["i"]))
    last = f"c=biws,r={fields['r']}"
    key = rules.client_key("SCRAM-SHA-256", salted)
    signed = b",".join((first.encode(), server_first, last.encode()))
    signature = rules.keyed("SCRAM-SHA-256", rules.digest("SCRAM-SHA-256", key), signed)
    yield f"{last},p={b64encode(rules.xor(key, signature)).decode()}".encode()


def plain(value: Any) -> Any:
    """A value of a response; times count from now."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, (list, tuple)):
        return sorted([{n: plain(getattr(it, n)) for n in it._fields} for it in value], key=str)
    if isinstance(value, int) and value > 1 << 32:
        return round((value - 1000 * now_s()) / UNIT_MS)
    if isinstance(value, str) and len(value) == 22:
        return "an id"
    return value


def make(owner: str = "", renewer: str = "", lifetime_ms: int = -1) -> CreateDelegationTokenRequest:
    kind, _, name = owner.partition(":")
    renewer_type, _, renewer_name = renewer.partition(":")
    return CreateDelegationTokenRequest(
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=[CreatableRenewers(principal_type=renewer_type, principal_name=renewer_name)]
        if renewer
        else [],
        max_lifetime_ms=lifetime_ms,
    )


def outcomes(node: TokenNode) -> dict[str, Any]:
    them = Outcomes(node)
    everything = DescribeDelegationTokenRequest(owners=None)
    token = them.ask("create", "alice", make(renewer="User:bob"))
    for version in (1, 2, 3):
        them.ask(f"create {version}", "bob", make(), version)
        them.ask(f"describe {version}", "bob", everything, version)
        them.ask(f"create {version}", "nobody", make(), version)
        them.ask(f"describe {version}", "nobody", everything, version)
    for version in (1, 2):
        for by in ("nobody", "alice", "bob", "carol", "admin"):
            for name, hmac in (("the", token.hmac), ("no", b""), ("another", b"x" * 64)):
                for period_ms in (-1, 0, 2 * UNIT_MS, 1 << 62):
                    renewal = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
                    them.ask(f"renew {version} {name} token {period_ms}", by, renewal, version)
            for hmac, period_ms in ((token.hmac, 1 << 62), (token.hmac, 4 * UNIT_MS), (b"x", -1)):
                ending = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
                them.ask(f"expire {version} {len(hmac)} {period_ms}", by, ending, version)
    them.ask("short", "alice", make(lifetime_ms=UNIT_MS))
    them.ask("group as renewer", "alice", make(renewer="Group:bob"))
    them.ask("for herself", "alice", make(owner="User:alice"))
    them.ask("for bob", "carol", make(owner="User:bob"))
    them.ask("for bob, group as renewer", "carol", make(owner="User:bob", renewer="Group:bob"))
    for user in USERS:
        them.ask("describe all", user, everything)
    them.grant("carol", "--user-principal", "User:bob", "CreateTokens", "DescribeTokens")
    them.grant("carol", "--delegation-token", token.token_id, "Describe")
    for_bob = them.ask("for bob, with an ACL", "carol", make(owner="User:bob"))
    them.ask("describe all, with an ACL", "carol", everything)
    owned = DescribeDelegationTokenRequest(
        owners=[DescribeDelegationTokenOwner(principal_type="User", principal_name="bob")]
    )
    for user in USERS:
        them.ask("describe bob's", user, owned)
        them.ask("describe nobody's", user, DescribeDelegationTokenRequest(owners=[]))
    expired = them.ask("to expire", "alice", make())
    ending = ExpireDelegationTokenRequest(hmac=expired.hmac, expiry_time_period_ms=0)
    end_ms = them.ask("expire now", "alice", ending).expiry_timestamp_ms
    wait_until(lambda: now_s() * 1000 > end_ms)
    them.log_in(EXPIRED, expired.token_id, password_of(expired.hmac), ",tokenauth=true")
    password = b64encode(token.hmac).decode()
    by_token: dict[str, Any] = {"password": password, "more": BY_TOKEN}
    for request in (
        make(),
        everything,
        RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1),
        ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1),
    ):
        them.ask(type(request).__name__, token.token_id, request, **by_token)
        them.found[f"by token: {type(request).__name__}"] = them.found.pop(
            f"{token.token_id}: {type(request).__name__}"
        )
    for extension in ("", ",tokenauth=true", ",tokenauth=TRUE", ",tokenauth=false", ",a=b"):
        them.log_in(f"token {extension}", token.token_id, password, extension)
        them.log_in(f"user {extension}", "alice", PASSWORD, extension)
    them.log_in("wrong", token.token_id, b64encode(for_bob.hmac).decode(), ",tokenauth=true")
    ended = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
    them.ask("end", "bob", ended)
    them.ask("end again", "bob", ended)
    them.log_in("ended", token.token_id, password, ",tokenauth=true")
    return them.found


def test_requests_and_logins_end_as_with_kafka(kafka_jars: str, tmp_path: Path) -> None:
    with ours(tmp_path / "ours") as node:
        found = outcomes(node)
    with theirs(tmp_path / "theirs") as node:
        expected = outcomes(node)
    different = {key: (found[key], expected[key]) for key in found if found[key] != expected[key]}
    # Kafka lets it in, and closes the connection at the next request.
    refused = [ErrorCode.SASL_AUTHENTICATION_FAILED, found["login: ended"][1], 0, False]
    assert different == {f"login: {EXPIRED}": (refused, [0, "", 0, False])}
    assert found.keys() == expected.keys()


# Brokers of one, controllers of the other --------------------------------------------------------

CONTROLLER, BROKER = 1, 2
CONTROLLER_PROPERTIES = """\
process.roles=controller
listeners=CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=CONTROLLER:PLAINTEXT
"""
BROKER_PROPERTIES = """\
process.roles=broker
listeners=OPEN://127.0.0.1:{open},CLIENTS://127.0.0.1:{clients}
listener.security.protocol.map=OPEN:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=OPEN
broker.heartbeat.interval.ms=500
"""


@pytest.mark.long
@pytest.mark.parametrize("is_broker_ours", [True, False], ids=["our-broker", "our-controller"])
def test_a_broker_tells_the_controller_of_the_other_who_asks(
    kafka_jars: str, tmp_path: Path, *, is_broker_ours: bool
) -> None:
    node = TokenNode(tmp_path / "client")
    for node_id, roles in ((CONTROLLER, CONTROLLER_PROPERTIES), (BROKER, BROKER_PROPERTIES)):
        text = (roles + COMMON).format(folder=tmp_path / f"{node_id}", **node.ports)
        (tmp_path / f"{node_id}.properties").write_text(f"node.id={node_id}\n{text}")
    users = [f"{MECHANISMS[0]}=[name={user},password={PASSWORD}]" for user in USERS]
    scram = [word for user in users for word in ("--add-scram", user)]
    # The features that our brokers do not have yet.
    levels = [f"{name}.version=0" for name in ("group", "share", "streams", "transaction")]
    features = [word for level in levels for word in ("--feature", level)]
    format_node(str(tmp_path / f"{CONTROLLER}.properties"), "--standalone", *scram, *features)
    format_node(str(tmp_path / f"{BROKER}.properties"))
    with ExitStack() as closing:
        kafka = KafkaNodes(tmp_path, closing)
        for node_id, is_ours in ((CONTROLLER, not is_broker_ours), (BROKER, is_broker_ours)):
            if is_ours:
                file, errors = str(tmp_path / f"{node_id}.properties"), str(tmp_path / "errors.txt")
                closing.callback(NodeProcess(None, file, topics={}, errors=errors).kill_if_running)
            else:
                kafka.start(node_id)
        token = created(node)
        assert (token.principal_name, token.token_requester_principal_name) == ("alice", "alice")
        wait_until(lambda: password_of(token.hmac) in node.ends())
        # Kafka's controller, too, finds a token only after a while.
        wait_until(lambda: renewal(node, "bob", token) != ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        assert renewal(node, "bob", token) == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert renewal(node, "alice", token) == ErrorCode.NONE
        with node.client(token.token_id, password_of(token.hmac), BY_TOKEN) as client:
            refused: Any = client.request("CreateDelegationToken", None, make())
            assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def renewal(node: TokenNode, user: str, token: Any) -> int:
    """The error code of a user who renews a token."""
    with node.client(user) as client:
        request = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1)
        response: Any = client.request("RenewDelegationToken", None, request)
    code: int = response.error_code
    return code
