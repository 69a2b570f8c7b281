"""Requests are allowed and denied as by a broker of Kafka, with one file of properties for both."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.authorization.acls import PatternType, Permission
from kraftlog.cli import main
from kraftlog.client.deadline import Deadline
from kraftlog.wire.apis import BROKER, ApiKey
from kraftlog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kraftlog.wire.messages.describe_acls import DescribeAclsRequest
from kraftlog.wire.messages.find_coordinator import FindCoordinatorRequest
from kraftlog.wire.messages.init_producer_id import InitProducerIdRequest
from tests.controller.test_acls import FILTER
from tests.interop.kafka_broker import start_kafka
from tests.node.test_access import (
    CASES,
    DENIALS,
    NAMES,
    Case,
    cases,
    committed,
    new_topic,
    produced,
)
from tests.ports import free_ports
from tests.server.node_process import NodeProcess
from tests.server.sasl_raw import Raw
from tests.time_limit import LIMIT_S
from tests.virtual_host import CLUSTER_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kraftlog.wire.schema import Message

pytestmark = pytest.mark.interop

#: Requests that are not compared, by API and version.
NOT_COMPARED = {
    (ApiKey.REMOVE_PARTITIONS, 0): "Kafka does not have it",
    (ApiKey.READ_OFFSET, 0): "Kafka does not have it",
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0): "Kafka sends no response to a denied null",
}
#: Requests to which those who are allowed get other responses from Kafka.
DIFFERENT = {
    (ApiKey.FIND_COORDINATOR, 4): "transactions are not served",
    (ApiKey.VOTE, 2): "of two reasons to refuse its epoch, the other one is named",
    (ApiKey.FETCH, 17): "no partition is an error",
    (ApiKey.FETCH_SNAPSHOT, 1): "Kafka fails: the replica has no directory id",
    (ApiKey.ALTER_PARTITION, 3): "without a partition nothing is checked",
}
#: The cases in order, and last the one that deletes all ACLs.
ORDER = sorted(
    [number for number, case in enumerate(CASES) if (case.key, case.version) not in NOT_COMPARED],
    key=lambda number: CASES[number].key == ApiKey.DELETE_ACLS,
)
ADMIN, NOBODY = "admin", "nobody"
ACLS = sorted({acl for case in CASES for acl in case.needs})
#: A user for each ACL, who has no other.
USERS = {acl: f"user{number}" for number, acl in enumerate(ACLS)}
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=CLIENTS://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
inter.broker.listener.name=CLIENTS
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
auto.create.topics.enable=false
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin
listener.name.clients.plain.sasl.jaas.config={jaas}
listener.name.controller.plain.sasl.jaas.config={jaas}
"""


def _write_properties(folder: Path) -> tuple[str, tuple[int, int]]:
    """The file, and the ports of the listeners of clients and of controllers."""
    folder.mkdir()
    clients, controller = free_ports(2)
    users = " ".join(f'user_{user}="secret"' for user in (ADMIN, NOBODY, *USERS.values()))
    jaas = f'{_MODULE} required username="{ADMIN}" password="secret" {users};'
    path = folder / "server.properties"
    ports = {"clients": clients, "controller": controller}
    path.write_text(_PROPERTIES.format(folder=folder, jaas=jaas, **ports))
    assert main(["format", "-c", str(path), "--standalone", "--cluster-id", CLUSTER_ID]) == 0
    return str(path), (clients, controller)


@contextmanager
def _node(folder: Path) -> Iterator[tuple[int, int]]:
    path, ports = _write_properties(folder)
    node = NodeProcess(None, path, errors=str(folder / "errors.txt"), topics={})
    try:
        yield ports
    finally:
        node.kill_if_running()


@contextmanager
def _kafka(folder: Path) -> Iterator[tuple[int, int]]:
    path, ports = _write_properties(folder)
    with start_kafka(path, str(folder)):
        yield ports


def _logged_in(port: int, user: str) -> Raw:
    raw = Raw(port)
    raw.handshake()
    assert raw.authenticate(user, "secret").error_code == 0
    return raw


def _prepare(ports: tuple[int, int]) -> None:
    """Topics with a record, a group, and the ACL of each user, known on both listeners."""
    with _logged_in(ports[0], ADMIN) as admin:
        for name in ("t", "hidden"):
            response = admin.call(ApiKey.CREATE_TOPICS, 7, new_topic(name))
            assert set(errors(response).values()) == {0}
            _until_free_of_errors(admin, ApiKey.PRODUCE, 9, partial(produced, name))
        wanted = FindCoordinatorRequest(key="g")
        _until_free_of_errors(admin, ApiKey.FIND_COORDINATOR, 3, lambda: wanted)
        for name in ("t", "hidden"):  # one of them will be deleted, the group will not
            _until_free_of_errors(admin, ApiKey.OFFSET_COMMIT, 8, partial(committed, "g", name))
        begun = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        _until_free_of_errors(admin, ApiKey.INIT_PRODUCER_ID, 4, lambda: begun)
        creations = [
            AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=PatternType.LITERAL,
                principal=f"User:{user}",
                host="*",
                operation=operation,
                permission_type=Permission.ALLOW,
            )
            for (operation, kind, name), user in USERS.items()
        ]
        admin.call(ApiKey.CREATE_ACLS, 3, CreateAclsRequest(creations=creations))
    for port in ports:
        with _logged_in(port, ADMIN) as admin:
            deadline = Deadline(LIMIT_S)
            while _acls(admin) < len(ACLS):
                assert not deadline.is_over


def _acls(admin: Raw) -> int:
    """The number of ACLs that a node knows."""
    response = admin.call(ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(**FILTER))
    return sum(len(resource.acls) for resource in response.resources)


def _until_free_of_errors(
    admin: Raw, key: int, version: int, request: Callable[[], Message]
) -> None:
    deadline = Deadline(LIMIT_S)
    while any(errors(admin.call(key, version, request())).values()):
        assert not deadline.is_over


def errors(message: Any, path: str = "") -> dict[str, int]:
    """The error codes in a response, by where they are."""
    found = {}
    for field in type(message)._schema:
        value = getattr(message, field.name)
        if field.name == "error_code":
            found[path] = value
        elif field.is_array and field.struct is not None:
            for number, each in enumerate(value or ()):
                found |= errors(each, f"{path}{field.name}[{number}]")
    return found


def _compared(case: Case, codes: dict[str, int]) -> Any:
    if (case.key, case.version) in DIFFERENT:
        return DENIALS & set(codes.values())
    return codes


def _outcomes(ports: tuple[int, int]) -> dict[str, Any]:
    """How each request ends for one who is not logged in, for nobody, and with each permission."""
    _prepare(ports)
    found: dict[str, Any] = {}
    for number in ORDER:
        case, name = CASES[number], NAMES[number]
        port = ports[case.listener != BROKER]
        with Raw(port) as raw:
            raw.send(case.key, case.version, cases()[number].request)
            found[f"{name} before login"] = raw.is_closed
        for user in (NOBODY, *(USERS[acl] for acl in case.needs)):
            with _logged_in(port, user) as raw:
                response = raw.call(case.key, case.version, cases()[number].request)
                found[f"{name} {user}"] = _compared(case, errors(response))
    return found


@pytest.mark.long
def test_requests_end_as_on_a_broker_of_kafka(kafka_jars: str, tmp_path: Path) -> None:
    with _node(tmp_path / "ours") as ports:
        ours = _outcomes(ports)
    with _kafka(tmp_path / "theirs") as ports:
        theirs = _outcomes(ports)
    assert {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]} == {}
