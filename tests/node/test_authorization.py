"""The authorizer of a node follows the ACLs of the metadata log, on brokers and controllers."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from kraftlog.authorization.acls import Operation, PatternType, Permission, ResourceType
from kraftlog.config.authorizer import CLASS_NAME, STANDARD_AUTHORIZER
from kraftlog.errors import ErrorCode
from kraftlog.node.metrics import access_metrics, registry
from kraftlog.wire.apis import BROKER, CONTROLLER, ApiKey
from kraftlog.wire.messages.api_versions import ApiVersionsRequest
from kraftlog.wire.messages.create_acls import CreateAclsRequest
from kraftlog.wire.messages.delete_acls import DeleteAclsRequest
from kraftlog.wire.messages.describe_acls import DescribeAclsRequest
from kraftlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.controller.test_acls import FILTER, creation, deletion
from tests.node.frame_client import FrameClient, ask_settled
from tests.node.three_nodes import NODES, ThreeNodes
from tests.virtual_host import SETTINGS, VirtualHost

if TYPE_CHECKING:
    from typing import Any

    from kraftlog_simulator.files import MemoryFiles

AUTHORIZER = f"{CLASS_NAME}={STANDARD_AUTHORIZER}\nsuper.users=User:ANONYMOUS\n"
ASKED = ("User:alice", "10.0.0.1", Operation.READ, ResourceType.TOPIC, "orders")


def secured(files: MemoryFiles | None = None) -> VirtualHost:
    return VirtualHost(files, SETTINGS + AUTHORIZER)


def allows(host: VirtualHost) -> bool:
    assert host.node.authorizer is not None
    return host.node.authorizer.allows(*ASKED)


def has_loaded(host: VirtualHost) -> bool:
    assert host.node.authorizer is not None
    return host.node.authorizer.is_loaded


def create(host: VirtualHost, *names: str) -> list[int]:
    creations = [creation(resource_name=name) for name in names]
    request = CreateAclsRequest(creations=creations)
    response = ask_settled(host, ApiKey.CREATE_ACLS, 3, request)
    return [each.error_code for each in response.results]


def delete(host: VirtualHost, **fields: Any) -> list[int]:
    request = DeleteAclsRequest(filters=[deletion(**fields)])
    response = ask_settled(host, ApiKey.DELETE_ACLS, 3, request)
    return [len(each.matching_acls) for each in response.filter_results]


def describe(host: VirtualHost, listener: int = BROKER, **fields: Any) -> Any:
    client = FrameClient(host, listener)
    client.send(ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(**{**FILTER, **fields}))
    host.settle()
    ((_, response),) = client.take()
    return response


def test_a_node_without_an_authorizer_has_none() -> None:
    host = VirtualHost()
    assert host.node.authorizer is None
    response = describe(host)
    assert response.error_code == ErrorCode.SECURITY_DISABLED
    assert response.error_message == "No Authorizer is configured on the broker"


def test_acls_count_until_they_are_deleted() -> None:
    host = secured()
    assert not allows(host)
    assert create(host, "orders", "") == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert allows(host)
    assert delete(host, resource_name_filter="orders") == [1]
    assert not allows(host)


def test_acls_are_known_again_after_a_restart() -> None:
    host = secured()
    create(host, "orders")
    host.files.kill()
    assert allows(secured(host.files))


@pytest.mark.parametrize("listener", [BROKER, CONTROLLER])
def test_acls_are_described_by_resource(listener: int) -> None:
    """Brokers and controllers answer; an answer about many ACLs is made in steps."""
    host = secured()
    create(host, *[f"t{number}" for number in range(300)])
    everything = describe(host, listener)
    assert len(everything.resources) == 300
    (resource,) = describe(host, listener, resource_name_filter="t7").resources
    assert (resource.resource_type, resource.resource_name) == (ResourceType.TOPIC, "t7")
    assert resource.pattern_type == PatternType.LITERAL
    (acl,) = resource.acls
    assert (acl.principal, acl.host) == ("User:alice", "*")
    assert (acl.operation, acl.permission_type) == (Operation.READ, Permission.ALLOW)


def test_a_filter_with_unknown_numbers_is_refused() -> None:
    response = describe(secured(), operation=99)
    assert (response.error_code, response.resources) == (ErrorCode.INVALID_REQUEST, ())


def list_offsets(topic: str) -> ListOffsetsRequest:
    part = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[part])]
    )


class SecuredNodes(ThreeNodes):
    """Three nodes with an authorizer."""

    more_settings = AUTHORIZER


def test_every_node_follows_the_acls_and_lets_nobody_in_before() -> None:
    """Requests to a node that starts again wait until it has replayed what was committed by then.

    A denial would be final: a consumer ends when it is denied its topic.
    """
    nodes = SecuredNodes(Random(1))
    nodes.loss = 0
    assert [allows(nodes.hosts[each]) for each in NODES] == [False] * 3
    follower = next(each for each in NODES if nodes.hosts[each] is not nodes.host)
    nodes._stop(follower, power=False)
    request = CreateAclsRequest(creations=[creation(resource_name="orders")])
    FrameClient(nodes.host).send(ApiKey.CREATE_ACLS, 3, request)
    nodes.settle(1000)
    nodes._start(follower)
    started = nodes.hosts[follower]
    assert not has_loaded(started)
    assert started.node.authorizer is not None
    assert started.node.authorizer.allows("User:ANONYMOUS", *ASKED[1:])
    alice, bob = FrameClient(started), FrameClient(started)
    for client, principal in ((alice, "User:alice"), (bob, "User:bob")):
        client.connection.principal = principal
        client.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
        for _ in range(2):
            client.send(ApiKey.LIST_OFFSETS, 6, list_offsets("orders"))
        assert len(client.take()) == 1, "everyone may ask for the versions"
    nodes.settle(1000)
    assert has_loaded(started)
    unknown, denied = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for client, code in ((alice, unknown), (bob, denied)):
        responses = [response for _, response in client.take()]
        codes = [each.topics[0].partitions[0].error_code for each in responses]
        assert codes == [code, code]
    assert [allows(nodes.hosts[each]) for each in NODES] == [True] * 3


def test_acls_and_denials_are_metrics() -> None:
    host = secured()
    create(host, "orders", "other")
    client = FrameClient(host)
    client.connection.principal = "User:bob"
    for _ in range(3):
        client.send(ApiKey.LIST_OFFSETS, 6, list_offsets("orders"))
    values = {
        family.name: list(family.measure(host.node, host.now))
        for family in registry.families_of(host.node)
        if "authorization" in family.name
    }
    assert values == {
        "kraftlog_authorization_acls": [((), 2)],
        "kraftlog_authorization_denied_total": [((), 3)],
    }
    assert access_metrics.FAMILIES[0] not in registry.families_of(VirtualHost().node)
