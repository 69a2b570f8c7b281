"""Compares responses with those of Apache Kafka field by field: codes, nulls, empty values.

Each request is sent to a broker of Kafka and to a node of ours, in several versions.
"""

from __future__ import annotations

import re
import socket
import struct
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.types import NULL_UUID
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages import alter_client_quotas as quota_changes
from kraftlog.wire.messages import alter_user_scram_credentials as scram_changes
from kraftlog.wire.messages import create_acls as acls
from kraftlog.wire.messages import delete_acls, describe_acls
from kraftlog.wire.messages import describe_client_quotas as quotas
from kraftlog.wire.messages import describe_configs as configs
from kraftlog.wire.messages import describe_topic_partitions as descriptions
from kraftlog.wire.messages import describe_user_scram_credentials as scram
from kraftlog.wire.messages import elect_leaders as elections
from kraftlog.wire.messages import fetch as fetches
from kraftlog.wire.messages import find_coordinator as coordinators
from kraftlog.wire.messages import list_offsets as offsets
from kraftlog.wire.messages import metadata as metadatas
from kraftlog.wire.messages.api_versions import ApiVersionsRequest
from kraftlog.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from kraftlog.wire.messages.delete_groups import DeleteGroupsRequest
from kraftlog.wire.messages.describe_cluster import DescribeClusterRequest
from kraftlog.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kraftlog.wire.messages.describe_groups import DescribeGroupsRequest
from kraftlog.wire.messages.describe_producers import DescribeProducersRequest
from kraftlog.wire.messages.describe_producers import TopicRequest as ProducersOfTopic
from kraftlog.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from kraftlog.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kraftlog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kraftlog.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from kraftlog.wire.messages.sync_group import SyncGroupRequest
from kraftlog.wire.messages.unregister_controller import UnregisterControllerRequest
from kraftlog.wire.schema import Message
from tests.cli.test_common import controller_of
from tests.server.node_process import NodeProcess, create_topics
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: An empty topic of both brokers, a topic that neither has, and an invalid topic name.
TOPIC, ABSENT, INVALID = "answers", "absent", "in valid"
GROUP_KEY_TYPE, SHA_256, ANY, ANY_NAME = 0, 1, 1, None


def fetch_request(isolation: int, topic: str, index: int, offset: int) -> Message:
    part = fetches.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1)
    topics = [fetches.FetchTopic(topic=topic, partitions=[part])]
    return fetches.FetchRequest(
        max_wait_ms=0, min_bytes=0, isolation_level=isolation, topics=topics
    )


def list_offsets_request(timestamp: int) -> Message:
    parts = [
        offsets.ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in (0, 9)
    ]
    topics = [offsets.ListOffsetsTopic(name=TOPIC, partitions=parts)]
    return offsets.ListOffsetsRequest(replica_id=-1, topics=topics)


def join_request(**fields: Any) -> Message:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    values = {"group_id": "g", "session_timeout_ms": 10_000, "member_id": "m", **fields}
    return JoinGroupRequest(protocol_type="consumer", protocols=protocols, **values)


def describe_configs_request(kind: int, name: str, *keys: str) -> Message:
    resource = configs.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    return configs.DescribeConfigsRequest(resources=[resource], include_synonyms=True)


def describe_quotas_request(*components: tuple[str, int, str | None]) -> Message:
    wanted = [
        quotas.ComponentData(entity_type=kind, match_type=how, match=match)
        for kind, how, match in components
    ]
    return quotas.DescribeClientQuotasRequest(components=wanted, strict=True)


def remove_unset_quota_request() -> Message:
    """AlterClientQuotas that removes a quota which is not set."""
    entity = quota_changes.EntityData(entity_type="user", entity_name="nobody")
    change = quota_changes.OpData(key="producer_byte_rate", value=0.0, remove=True)
    entry = quota_changes.EntryData(entity=[entity], ops=[change])
    return quota_changes.AlterClientQuotasRequest(entries=[entry], validate_only=False)


def describe_credentials_request(*users: str) -> Message:
    named = [scram.UserName(name=user) for user in users]
    return scram.DescribeUserScramCredentialsRequest(users=named or None)


def remove_unset_credential_request() -> Message:
    deletion = scram_changes.ScramCredentialDeletion(name="nobody", mechanism=SHA_256)
    return scram_changes.AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=())


ACL: Any = {"principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
EVERY_ACL: Any = {
    "resource_type_filter": ANY,
    "resource_name_filter": ANY_NAME,
    "pattern_type_filter": ANY,
    "principal_filter": ANY_NAME,
    "host_filter": ANY_NAME,
    "operation": ANY,
    "permission_type": ANY,
}

REQUESTS: dict[str, tuple[int, tuple[int, ...], Message]] = {
    "metadata": (
        ApiKey.METADATA,
        (4, 9, 13),
        metadatas.MetadataRequest(
            topics=[
                metadatas.MetadataRequestTopic(topic_id=NULL_UUID, name=name)
                for name in (TOPIC, ABSENT, INVALID)
            ],
            allow_auto_topic_creation=False,
        ),
    ),
    "topics by page": (
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        (0,),
        descriptions.DescribeTopicPartitionsRequest(
            topics=[descriptions.TopicRequest(name=n) for n in (TOPIC, ABSENT, INVALID)],
            cursor=None,
        ),
    ),
    **{
        f"fetch {isolation} {topic}-{index}@{offset}": (
            ApiKey.FETCH,
            (4, 7, 12),
            fetch_request(isolation, topic, index, offset),
        )
        for isolation in (0, 1)
        for topic, index, offset in ((TOPIC, 0, 0), (TOPIC, 0, 99), (TOPIC, 9, 0), (ABSENT, 0, 0))
    },
    **{
        f"list offsets {timestamp}": (
            ApiKey.LIST_OFFSETS,
            (1, 4, 7, 11),
            list_offsets_request(timestamp),
        )
        for timestamp in (-1, -2, -3, -4, -5, -7, 1000)
    },
    "find one coordinator": (
        ApiKey.FIND_COORDINATOR,
        (1, 3),
        coordinators.FindCoordinatorRequest(key="g", key_type=GROUP_KEY_TYPE),
    ),
    "find coordinators": (
        ApiKey.FIND_COORDINATOR,
        (4, 6),
        coordinators.FindCoordinatorRequest(coordinator_keys=["g", ""], key_type=GROUP_KEY_TYPE),
    ),
    "join": (ApiKey.JOIN_GROUP, (0, 5, 7, 9), join_request(member_id="unknown")),
    "join without a group": (ApiKey.JOIN_GROUP, (0, 5, 7, 9), join_request(group_id="")),
    "sync without a protocol": (
        ApiKey.SYNC_GROUP,
        (0, 4, 5),
        SyncGroupRequest(group_id="none", generation_id=1, member_id="m", assignments=()),
    ),
    "groups": (
        ApiKey.DESCRIBE_GROUPS,
        (0, 5, 6),
        DescribeGroupsRequest(groups=["none", ""]),
    ),
    "deleted groups": (
        ApiKey.DELETE_GROUPS,
        (0, 2, 3),
        DeleteGroupsRequest(groups_names=["none", "none", ""]),
    ),
    **{
        f"a client of {cluster_id} node {node_id}": (
            ApiKey.API_VERSIONS,
            (5,),
            ApiVersionsRequest(
                client_software_name=software,
                client_software_version="1",
                cluster_id=cluster_id,
                node_id=node_id,
            ),
        )
        for software, cluster_id, node_id in (
            ("a", "another", 1),
            ("a", "another", -1),
            ("a", None, 1),
            ("", None, -1),
        )
    },
    **{
        f"unregistered controller {controller_id}": (
            ApiKey.UNREGISTER_CONTROLLER,
            (0,),
            UnregisterControllerRequest(controller_id=controller_id),
        )
        for controller_id in (1, 9, -1)
    },
    "configs of a topic": (
        ApiKey.DESCRIBE_CONFIGS,
        (1, 4),
        describe_configs_request(2, TOPIC, "retention.ms", "flush.ms"),
    ),
    "configs of a broker": (
        ApiKey.DESCRIBE_CONFIGS,
        (1, 4),
        describe_configs_request(4, "1", "num.partitions", "min.insync.replicas"),
    ),
    "the cluster": (
        ApiKey.DESCRIBE_CLUSTER,
        (0, 2),
        DescribeClusterRequest(include_cluster_authorized_operations=True),
    ),
    "controllers asked of a broker": (
        ApiKey.DESCRIBE_CLUSTER,
        (1, 2),
        DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2),
    ),
    "producers": (
        ApiKey.DESCRIBE_PRODUCERS,
        (0,),
        DescribeProducersRequest(
            topics=[ProducersOfTopic(name=n, partition_indexes=(0, 9)) for n in (TOPIC, ABSENT)]
        ),
    ),
    "an unneeded election": (
        ApiKey.ELECT_LEADERS,
        (1, 2),
        elections.ElectLeadersRequest(
            election_type=0,
            topic_partitions=[elections.TopicPartitions(topic=TOPIC, partitions=(0, 9))],
            timeout_ms=1000,
        ),
    ),
    "the quorum": (
        ApiKey.DESCRIBE_QUORUM,
        (0, 2),
        DescribeQuorumRequest(
            topics=[
                TopicData(
                    topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)]
                )
            ]
        ),
    ),
    "acls": (ApiKey.DESCRIBE_ACLS, (1, 3), describe_acls.DescribeAclsRequest(**EVERY_ACL)),
    "new acls": (
        ApiKey.CREATE_ACLS,
        (1, 3),
        acls.CreateAclsRequest(
            creations=[
                acls.AclCreation(resource_type=2, resource_name="t", resource_pattern_type=3, **ACL)
            ]
            * 2
        ),
    ),
    "deleted acls": (
        ApiKey.DELETE_ACLS,
        (1, 3),
        delete_acls.DeleteAclsRequest(filters=[delete_acls.DeleteAclsFilter(**EVERY_ACL)] * 2),
    ),
    "a token": (
        ApiKey.CREATE_DELEGATION_TOKEN,
        (1, 2, 3),
        CreateDelegationTokenRequest(renewers=(), max_lifetime_ms=-1),
    ),
    "a renewed token": (
        ApiKey.RENEW_DELEGATION_TOKEN,
        (1, 2),
        RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1),
    ),
    "an expired token": (
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        (1, 2),
        ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=1),
    ),
    "tokens": (
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        (1, 3),
        DescribeDelegationTokenRequest(owners=None),
    ),
    "all credentials": (
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        (0,),
        describe_credentials_request(),
    ),
    "credentials of unknown users": (
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        (0,),
        describe_credentials_request("nobody", "twice", "twice"),
    ),
    "a deleted credential": (
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        (0,),
        remove_unset_credential_request(),
    ),
    "all quotas": (ApiKey.DESCRIBE_CLIENT_QUOTAS, (0, 1), describe_quotas_request()),
    **{
        f"quotas of {components}": (
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            (0, 1),
            describe_quotas_request(*components),
        )
        for components in (
            (("user", 0, "a"),),
            (("user", 0, None),),
            (("user", 1, "a"),),
            (("user", 2, "a"),),
            (("user", 7, None),),
            (("user", 2, None), ("user", 2, None)),
            (("user", 2, None), ("ip", 2, None)),
            (("", 2, None),),
            (("other", 2, None),),
        )
    },
    "a deleted quota": (ApiKey.ALTER_CLIENT_QUOTAS, (0, 1), remove_unset_quota_request()),
}

#: Fields that differ between clusters and between runs.
CHANGING = re.compile(
    r"\b(port|cluster_id|topic_id|\w+_timestamp|log_end_offset|high_watermark|leader_epoch"
    r"|replica_directory_id)$"
)


@pytest.fixture(scope="module")
def addresses(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of a Kafka broker and of a node, each with the topic and coordinators."""
    folder: Path = tmp_path_factory.mktemp("answers")
    node = NodeProcess(str(folder / "data"), errors=str(folder / "errors.txt"), topics={})
    try:
        for address in (kafka, node.address):
            create_topics(int(address.rpartition(":")[2]), {TOPIC: 1})
            _wait_for_coordinators(address)
        yield kafka, node.address
    finally:
        node.kill_if_running()


def _wait_for_coordinators(address: str) -> None:
    from kraftlog.client.deadline import Deadline

    deadline = Deadline(LIMIT_S)
    request = coordinators.FindCoordinatorRequest(coordinator_keys=["g"], key_type=GROUP_KEY_TYPE)
    while response_of(address, ApiKey.FIND_COORDINATOR, 4, request)["coordinators"][0][
        "error_code"
    ]:
        assert not deadline.is_over
        deadline.pause(0.05)


def response_of(address: str, api_key: int, version: int, request: Message) -> Any:
    """Send a request; return the response as plain data, with sorted arrays."""
    host, _, port = address.rpartition(":")
    api = APIS[api_key]
    with socket.create_connection((host, int(port)), timeout=LIMIT_S) as client:
        client.sendall(b"".join(request_frame(api, version, 1, "test", request)))
        with client.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            raw = stream.read(size)
    body_start = 4 + api.response_header_version(version)
    return plain(decode(api.response(), version, raw, body_start))


def plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        items = [plain(item) for item in value]
        return sorted(items, key=repr)
    if isinstance(value, Message):
        return {name: plain(getattr(value, name)) for name in value._fields}
    return value


def differences(theirs: Any, ours: Any, path: str = "") -> Iterator[str]:
    """A line for each field that differs, except those in CHANGING."""
    if CHANGING.search(path):
        return
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in theirs:
            yield from differences(theirs[name], ours[name], f"{path}.{name}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, (their_item, our_item) in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(their_item, our_item, f"{path}[{index}]")
    elif theirs != ours:
        yield f"{path}: {theirs!r} in Kafka, {ours!r} here"


@pytest.mark.parametrize("name", REQUESTS)
def test_a_node_responds_as_kafka_does(name: str, addresses: tuple[str, str]) -> None:
    api_key, versions, request = REQUESTS[name]
    found = []
    for version in versions:
        theirs, ours = [response_of(each, api_key, version, request) for each in addresses]
        found += [f"v{version}{line}" for line in differences(theirs, ours)]
    assert found == []


def test_served_apis_have_the_versions_of_kafka(addresses: tuple[str, str]) -> None:
    """A broker and a controller advertise the same versions of each API that a node serves."""
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    for kafka, node in (addresses, [controller_of(each) for each in addresses]):
        theirs, ours = [
            {
                each["api_key"]: each
                for each in response_of(address, ApiKey.API_VERSIONS, 5, request)["api_keys"]
            }
            for address in (kafka, node)
        ]
        assert {key: theirs.get(key) for key in ours} == ours


def test_differences_are_found() -> None:
    """A null and an empty value differ, and so do arrays of other lengths; ports may differ."""
    assert list(differences({"a": None}, {"a": ""})) == [".a: None in Kafka, '' here"]
    assert list(differences([{"a": 1}], [])) == [": [{'a': 1}] in Kafka, [] here"]
    assert list(differences({"port": 1}, {"port": 2})) == []
