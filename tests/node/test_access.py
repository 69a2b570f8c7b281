"""Every API asks the authorizer for what Kafka's asks for, and answers with Kafka's codes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kraftlog.authorization.acls import CLUSTER_NAME, Operation, PatternType, Permission
from kraftlog.authorization.acls import ResourceType as Type
from kraftlog.config.authorizer import CLASS_NAME, STANDARD_AUTHORIZER
from kraftlog.effects import RequestFailed, ResponseReceived
from kraftlog.errors import ErrorCode, UnansweredError
from kraftlog.node.access import rules
from kraftlog.node.api_table import SERVED
from kraftlog.node.error_responses import error_response
from kraftlog.records.builder import BatchBuilder
from kraftlog.types import METADATA_TOPIC, NULL_UUID
from kraftlog.wire.apis import APIS, BROKER, CONTROLLER, ApiKey
from kraftlog.wire.messages import (
    add_raft_voter,
    allocate_producer_ids,
    alter_client_quotas,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    begin_quorum_epoch,
    broker_heartbeat,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_user_scram_credentials,
    elect_leaders,
    end_quorum_epoch,
    envelope,
    fetch,
    fetch_snapshot,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    read_offset,
    remove_partitions,
    remove_raft_voter,
    sync_group,
    unregister_broker,
    update_features,
    vote,
)
from kraftlog.wire.messages.metadata_records import AccessControlEntryRecord
from kraftlog.wire.messages.principal import DefaultPrincipalData
from kraftlog_simulator.cluster.stranger import codes_of
from tests.node.frame_client import FrameClient
from tests.node.frame_client import create_topics as create
from tests.node.test_authorization import SecuredNodes
from tests.node.three_nodes import NODES
from tests.virtual_host import CLUSTER_ID, SETTINGS, VirtualHost
from tests.wire.samples import Sampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.effects import SendRequest
    from kraftlog.wire.schema import Message

ALICE = "User:alice"
AUTHORIZER = f"{CLASS_NAME}={STANDARD_AUTHORIZER}\nsuper.users=User:ANONYMOUS\n"
NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
NO_TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
DENIALS = {NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTION}


@pytest.fixture
def host() -> VirtualHost:
    """A node whose only super user is the anonymous one, with topics and their records."""
    made = VirtualHost(None, SETTINGS + AUTHORIZER)
    create(made, {"t": 1, "hidden": 1})
    assert codes(ask(made, ApiKey.PRODUCE, 9, produced("t"), principal="User:ANONYMOUS")) == {0}
    return made


def ask(
    host: VirtualHost,
    key: int,
    version: int,
    request: Message,
    *,
    listener: int = BROKER,
    principal: str = ALICE,
) -> Any:
    """The response that a client gets."""
    client = FrameClient(host, listener)
    client.connection.principal = principal
    client.send(key, version, request)
    host.settle()
    [(_, response)] = client.take()
    return response


def allow(host: VirtualHost, operation: int, kind: int, name: str, who: str = ALICE) -> None:
    assert host.node.authorizer is not None
    host.node.authorizer.add(
        AccessControlEntryRecord(
            id=NULL_UUID,
            resource_type=kind,
            resource_name=name,
            pattern_type=PatternType.LITERAL,
            principal=who,
            host="*",
            operation=operation,
            permission_type=Permission.ALLOW,
        )
    )


def codes(message: Any) -> set[int]:
    """All error codes in a response."""
    return set(codes_of(message))


def batch() -> bytes:
    builder = BatchBuilder(base_offset=0, leader_epoch=0)
    builder.append(0, None, b"a")
    return bytes(builder.build())


def produced(topic: str, acks: int = -1, transactional_id: str | None = None) -> Message:
    part = produce.PartitionProduceData(index=0, records=batch())
    data = [produce.TopicProduceData(name=topic, partition_data=[part])]
    return produce.ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=data
    )


def fetched(*topics: str, session: tuple[int, int] = (0, -1)) -> fetch.FetchRequest:
    part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return fetch.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=[fetch.FetchTopic(topic=name, partitions=[part]) for name in topics],
        forgotten_topics_data=(),
    )


def committed(group: str = "g", topic: str = "t") -> Message:
    part = offset_commit.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    topics = [offset_commit.OffsetCommitRequestTopic(name=topic, partitions=[part])]
    return offset_commit.OffsetCommitRequest(group_id=group, member_id="", topics=topics)


def configured(kind: int, name: str) -> Message:
    change = incremental_alter_configs.AlterableConfig(
        name="retention.ms", config_operation=0, value="1"
    )
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[change]
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=False
    )


def configs_of(kind: int, name: str) -> Message:
    resource = describe_configs.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    return describe_configs.DescribeConfigsRequest(resources=[resource])


def new_topic(name: str) -> Message:
    topic = create_topics.CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    return create_topics.CreateTopicsRequest(topics=[topic])


def heartbeat_naming(*topics: str) -> Message:
    """A heartbeat that joins the group `g` and subscribes to these topics."""
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=topics,
        topic_partitions=(),
    )


class Case(NamedTuple):
    """A request, what it needs one of, and the code without it."""

    key: int
    version: int
    request: Any
    denied: int
    needs: tuple[tuple[int, int, str], ...]
    listener: int = BROKER


def on_topic(operation: int, name: str = "t") -> tuple[int, int, str]:
    return operation, Type.TOPIC, name


def on_group(operation: int) -> tuple[int, int, str]:
    return operation, Type.GROUP, "g"


def on_cluster(operation: int) -> tuple[int, int, str]:
    return operation, Type.CLUSTER, CLUSTER_NAME


READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
ACTION = on_cluster(Operation.CLUSTER_ACTION)
ALTER = on_cluster(Operation.ALTER)
SEE = on_cluster(DESCRIBE)


def cases() -> list[Case]:
    part = describe_quorum.PartitionData(partition_index=0)
    quorum_topic = describe_quorum.TopicData(topic_name=METADATA_TOPIC, partitions=[part])
    epoch = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    deleted = delete_records.DeleteRecordsPartition(partition_index=0, offset=0)
    listed = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
    old = offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    several = offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)
    broker = 4
    voted = vote.PartitionData(
        partition_index=0, replica_epoch=0, replica_id=9, last_offset_epoch=0, last_offset=0
    )
    begun = begin_quorum_epoch.PartitionData(partition_index=0, leader_id=9, leader_epoch=0)
    ended = end_quorum_epoch.PartitionData(
        partition_index=0, leader_id=9, leader_epoch=0, preferred_successors=()
    )
    wanted = fetch_snapshot.PartitionSnapshot(
        partition=0,
        current_leader_epoch=0,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=0, epoch=0),
        position=0,
    )
    return [
        Case(ApiKey.PRODUCE, 9, produced("t"), NO_TOPIC, (on_topic(WRITE),)),
        Case(ApiKey.FETCH, 12, fetched("t"), NO_TOPIC, (on_topic(READ), on_topic(Operation.ALL))),
        Case(
            ApiKey.LIST_OFFSETS,
            6,
            list_offsets.ListOffsetsRequest(
                replica_id=-1,
                topics=[list_offsets.ListOffsetsTopic(name="t", partitions=[listed])],
            ),
            NO_TOPIC,
            (on_topic(DESCRIBE), on_topic(READ)),
        ),
        Case(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            4,
            offset_for_leader_epoch.OffsetForLeaderEpochRequest(
                topics=[offset_for_leader_epoch.OffsetForLeaderTopic(topic="t", partitions=[epoch])]
            ),
            NO_TOPIC,
            (on_topic(DESCRIBE), ACTION),
        ),
        Case(
            ApiKey.DELETE_RECORDS,
            2,
            delete_records.DeleteRecordsRequest(
                topics=[delete_records.DeleteRecordsTopic(name="t", partitions=[deleted])],
                timeout_ms=1000,
            ),
            NO_TOPIC,
            (on_topic(Operation.DELETE),),
        ),
        Case(
            ApiKey.DESCRIBE_PRODUCERS,
            0,
            describe_producers.DescribeProducersRequest(
                topics=[describe_producers.TopicRequest(name="t", partition_indexes=[0])]
            ),
            NO_TOPIC,
            (on_topic(READ),),
        ),
        Case(
            ApiKey.METADATA,
            9,
            metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="t")]),
            NO_TOPIC,
            (on_topic(DESCRIBE), on_topic(WRITE)),
        ),
        Case(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            0,
            describe_topic_partitions.DescribeTopicPartitionsRequest(
                topics=[describe_topic_partitions.TopicRequest(name="t")]
            ),
            NO_TOPIC,
            (on_topic(DESCRIBE),),
        ),
        Case(
            ApiKey.CREATE_TOPICS,
            7,
            new_topic("new"),
            NO_TOPIC,
            (on_cluster(Operation.CREATE),),
        ),
        Case(
            ApiKey.DELETE_TOPICS,
            4,
            delete_topics.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000),
            NO_TOPIC,
            (on_topic(Operation.DELETE), on_cluster(Operation.DELETE)),
        ),
        Case(
            ApiKey.CREATE_PARTITIONS,
            3,
            create_partitions.CreatePartitionsRequest(
                topics=[
                    create_partitions.CreatePartitionsTopic(name="t", count=2, assignments=None)
                ],
                timeout_ms=1000,
                validate_only=False,
            ),
            NO_TOPIC,
            (on_topic(Operation.ALTER),),
        ),
        Case(
            ApiKey.REMOVE_PARTITIONS,
            0,
            remove_partitions.RemovePartitionsRequest(
                topics=[remove_partitions.RemovePartitionsTopic(name="t", partitions=[0])],
                timeout_ms=1000,
            ),
            NO_TOPIC,
            (on_topic(Operation.DELETE),),
        ),
        Case(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            configs_of(2, "t"),
            NO_TOPIC,
            (on_topic(Operation.DESCRIBE_CONFIGS), on_topic(Operation.ALTER_CONFIGS)),
        ),
        Case(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            configs_of(broker, "1"),
            NO_CLUSTER,
            (on_cluster(Operation.DESCRIBE_CONFIGS),),
        ),
        Case(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            configured(2, "t"),
            NO_TOPIC,
            (on_topic(Operation.ALTER_CONFIGS),),
        ),
        Case(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            configured(broker, "1"),
            NO_CLUSTER,
            (on_cluster(Operation.ALTER_CONFIGS),),
        ),
        Case(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            configured(32, "g"),
            NO_GROUP,
            (on_group(Operation.ALTER_CONFIGS),),
        ),
        Case(
            ApiKey.LIST_CONFIG_RESOURCES,
            1,
            list_config_resources.ListConfigResourcesRequest(resource_types=()),
            NO_CLUSTER,
            (on_cluster(Operation.DESCRIBE_CONFIGS),),
        ),
        Case(
            ApiKey.INIT_PRODUCER_ID,
            4,
            init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1),
            NO_CLUSTER,
            (on_topic(WRITE, "any"), on_cluster(Operation.IDEMPOTENT_WRITE)),
        ),
        Case(
            ApiKey.INIT_PRODUCER_ID,
            4,
            init_producer_id.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1),
            NO_TRANSACTION,
            (),  # with it, too: transactions are not served
        ),
        Case(
            ApiKey.FIND_COORDINATOR,
            3,
            find_coordinator.FindCoordinatorRequest(key="g"),
            NO_GROUP,
            (on_group(DESCRIBE), on_group(READ)),
        ),
        Case(
            ApiKey.FIND_COORDINATOR,
            4,
            find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]),
            NO_TRANSACTION,
            ((DESCRIBE, Type.TRANSACTIONAL_ID, "x"),),
        ),
        Case(
            ApiKey.JOIN_GROUP,
            5,
            join_group.JoinGroupRequest(
                group_id="g",
                session_timeout_ms=10_000,
                member_id="",
                protocol_type="consumer",
                protocols=(),
            ),
            NO_GROUP,
            (on_group(READ),),
        ),
        Case(
            ApiKey.SYNC_GROUP,
            3,
            sync_group.SyncGroupRequest(
                group_id="g", generation_id=1, member_id="m", assignments=()
            ),
            NO_GROUP,
            (on_group(READ),),
        ),
        Case(
            ApiKey.HEARTBEAT,
            3,
            heartbeat.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
            NO_GROUP,
            (on_group(READ),),
        ),
        Case(ApiKey.OFFSET_COMMIT, 8, committed(), NO_GROUP, (on_group(READ),)),
        Case(
            ApiKey.OFFSET_FETCH,
            7,
            offset_fetch.OffsetFetchRequest(group_id="g", topics=[old]),
            NO_GROUP,
            (on_group(DESCRIBE),),
        ),
        Case(
            ApiKey.OFFSET_FETCH,
            8,
            offset_fetch.OffsetFetchRequest(groups=[several]),
            NO_GROUP,
            (on_group(DESCRIBE),),
        ),
        Case(
            ApiKey.OFFSET_DELETE,
            0,
            offset_delete.OffsetDeleteRequest(group_id="g", topics=()),
            NO_GROUP,
            (on_group(Operation.DELETE),),
        ),
        Case(
            ApiKey.DESCRIBE_GROUPS,
            5,
            describe_groups.DescribeGroupsRequest(groups=["g"]),
            NO_GROUP,
            (on_group(DESCRIBE),),
        ),
        Case(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, heartbeat_naming(), NO_GROUP, (on_group(READ),)),
        Case(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            1,
            consumer_group_describe.ConsumerGroupDescribeRequest(
                group_ids=["g"], include_authorized_operations=False
            ),
            NO_GROUP,
            (on_group(DESCRIBE),),
        ),
        Case(
            ApiKey.DELETE_GROUPS,
            2,
            delete_groups.DeleteGroupsRequest(groups_names=["g"]),
            NO_GROUP,
            (on_group(Operation.DELETE),),
        ),
        Case(
            ApiKey.DESCRIBE_QUORUM,
            2,
            describe_quorum.DescribeQuorumRequest(topics=[quorum_topic]),
            NO_CLUSTER,
            (SEE,),
        ),
        Case(
            ApiKey.DESCRIBE_LOG_DIRS,
            4,
            describe_log_dirs.DescribeLogDirsRequest(topics=None),
            NO_CLUSTER,
            (SEE,),
        ),
        Case(
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            2,
            alter_replica_log_dirs.AlterReplicaLogDirsRequest(
                dirs=[
                    alter_replica_log_dirs.AlterReplicaLogDir(
                        path="/d",
                        topics=[
                            alter_replica_log_dirs.AlterReplicaLogDirTopic(name="t", partitions=[0])
                        ],
                    )
                ]
            ),
            NO_CLUSTER,
            (ALTER,),
        ),
        Case(
            ApiKey.ADD_RAFT_VOTER,
            0,
            add_raft_voter.AddRaftVoterRequest(
                cluster_id=CLUSTER_ID,
                timeout_ms=1000,
                voter_id=9,
                voter_directory_id=NULL_UUID,
                listeners=(),
            ),
            NO_CLUSTER,
            (ALTER,),
        ),
        Case(
            ApiKey.REMOVE_RAFT_VOTER,
            0,
            remove_raft_voter.RemoveRaftVoterRequest(
                cluster_id=CLUSTER_ID, voter_id=9, voter_directory_id=NULL_UUID
            ),
            NO_CLUSTER,
            (ALTER,),
        ),
        Case(
            ApiKey.UPDATE_FEATURES,
            1,
            update_features.UpdateFeaturesRequest(feature_updates=()),
            NO_CLUSTER,
            (ALTER,),
        ),
        Case(
            ApiKey.UNREGISTER_BROKER,
            0,
            unregister_broker.UnregisterBrokerRequest(broker_id=9),
            NO_CLUSTER,
            (ALTER,),
        ),
        Case(
            ApiKey.ELECT_LEADERS,
            2,
            elect_leaders.ElectLeadersRequest(election_type=0, topic_partitions=None),
            NO_CLUSTER,
            (ALTER,),
        ),
        Case(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            0,
            alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=()),
            NO_CLUSTER,
            (ALTER,),
        ),
        Case(
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            0,
            list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None),
            NO_CLUSTER,
            (SEE,),
        ),
        Case(
            ApiKey.DESCRIBE_ACLS,
            3,
            describe_acls.DescribeAclsRequest(
                resource_type_filter=1,
                resource_name_filter=None,
                pattern_type_filter=1,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            ),
            NO_CLUSTER,
            (SEE,),
        ),
        Case(
            ApiKey.CREATE_ACLS,
            3,
            create_acls.CreateAclsRequest(
                creations=[
                    create_acls.AclCreation(
                        resource_type=Type.TOPIC,
                        resource_name="t",
                        principal=ALICE,
                        host="*",
                        operation=Operation.ALL,
                        permission_type=Permission.ALLOW,
                    )
                ]
            ),
            NO_CLUSTER,
            (ALTER,),
        ),
        Case(
            ApiKey.DELETE_ACLS,
            3,
            delete_acls.DeleteAclsRequest(
                filters=[
                    delete_acls.DeleteAclsFilter(
                        resource_type_filter=1,
                        resource_name_filter=None,
                        pattern_type_filter=1,
                        principal_filter=None,
                        host_filter=None,
                        operation=1,
                        permission_type=1,
                    )
                ]
            ),
            NO_CLUSTER,
            (ALTER,),
        ),
        Case(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            0,
            describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None),
            NO_CLUSTER,
            (SEE,),
        ),
        Case(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            0,
            alter_user_scram_credentials.AlterUserScramCredentialsRequest(
                deletions=[
                    alter_user_scram_credentials.ScramCredentialDeletion(name="u", mechanism=1)
                ],
                upsertions=(),
            ),
            NO_CLUSTER,
            (ALTER,),
        ),
        Case(
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            1,
            describe_client_quotas.DescribeClientQuotasRequest(components=(), strict=False),
            NO_CLUSTER,
            (on_cluster(Operation.DESCRIBE_CONFIGS),),
        ),
        Case(
            ApiKey.ALTER_CLIENT_QUOTAS,
            1,
            alter_client_quotas.AlterClientQuotasRequest(
                entries=[
                    alter_client_quotas.EntryData(
                        entity=[
                            alter_client_quotas.EntityData(entity_type="user", entity_name="u")
                        ],
                        ops=(),
                    )
                ],
                validate_only=True,
            ),
            NO_CLUSTER,
            (on_cluster(Operation.ALTER_CONFIGS),),
        ),
        # Between nodes
        Case(
            ApiKey.VOTE,
            2,
            vote.VoteRequest(
                cluster_id=CLUSTER_ID,
                topics=[vote.TopicData(topic_name=METADATA_TOPIC, partitions=[voted])],
            ),
            NO_CLUSTER,
            (ACTION,),
            CONTROLLER,
        ),
        Case(
            ApiKey.BEGIN_QUORUM_EPOCH,
            1,
            begin_quorum_epoch.BeginQuorumEpochRequest(
                cluster_id=CLUSTER_ID,
                topics=[
                    begin_quorum_epoch.TopicData(topic_name=METADATA_TOPIC, partitions=[begun])
                ],
                leader_endpoints=(),
            ),
            NO_CLUSTER,
            (ACTION,),
            CONTROLLER,
        ),
        Case(
            ApiKey.END_QUORUM_EPOCH,
            1,
            end_quorum_epoch.EndQuorumEpochRequest(
                cluster_id=CLUSTER_ID,
                topics=[end_quorum_epoch.TopicData(topic_name=METADATA_TOPIC, partitions=[ended])],
                leader_endpoints=(),
            ),
            NO_CLUSTER,
            (ACTION,),
            CONTROLLER,
        ),
        Case(
            ApiKey.FETCH,
            17,
            fetch.FetchRequest(
                cluster_id=CLUSTER_ID,
                max_wait_ms=0,
                min_bytes=0,
                topics=(),
                forgotten_topics_data=(),
            ),
            NO_CLUSTER,
            (ACTION,),
            CONTROLLER,
        ),
        Case(
            ApiKey.FETCH_SNAPSHOT,
            1,
            fetch_snapshot.FetchSnapshotRequest(
                cluster_id=CLUSTER_ID,
                topics=[fetch_snapshot.TopicSnapshot(name=METADATA_TOPIC, partitions=[wanted])],
            ),
            NO_CLUSTER,
            (ACTION,),
            CONTROLLER,
        ),
        Case(
            ApiKey.READ_OFFSET,
            0,
            read_offset.ReadOffsetRequest(
                cluster_id=CLUSTER_ID,
                read_timestamp_ms=-1,
                topics=[
                    read_offset.ReadOffsetTopic(
                        topic_name=METADATA_TOPIC,
                        partitions=[read_offset.ReadOffsetPartition(partition_index=0)],
                    )
                ],
            ),
            NO_CLUSTER,
            (ACTION,),
            CONTROLLER,
        ),
        Case(
            ApiKey.BROKER_HEARTBEAT,
            1,
            broker_heartbeat.BrokerHeartbeatRequest(
                broker_id=9,
                broker_epoch=1,
                current_metadata_offset=0,
                want_fence=False,
                want_shut_down=False,
            ),
            NO_CLUSTER,
            (ACTION,),
            CONTROLLER,
        ),
        Case(
            ApiKey.ALTER_PARTITION,
            3,
            alter_partition.AlterPartitionRequest(broker_id=9, broker_epoch=1, topics=()),
            NO_CLUSTER,
            (ACTION,),
            CONTROLLER,
        ),
        Case(
            ApiKey.ALLOCATE_PRODUCER_IDS,
            0,
            allocate_producer_ids.AllocateProducerIdsRequest(broker_id=9, broker_epoch=1),
            NO_CLUSTER,
            (ACTION,),
            CONTROLLER,
        ),
    ]


CASES = cases()
NAMES = [f"{APIS[case.key].name}-{case.version}-{number}" for number, case in enumerate(CASES)]


@pytest.mark.parametrize("number", range(len(CASES)), ids=NAMES)
def test_a_request_needs_one_of_its_permissions(host: VirtualHost, number: int) -> None:
    case, end = CASES[number], host.node.quorum.core.log.end

    def asked_by(principal: str) -> set[int]:
        # Requests are made anew, as handlers empty them.
        request, listener = cases()[number].request, case.listener
        answer = ask(host, case.key, case.version, request, listener=listener, principal=principal)
        return codes(answer)

    assert asked_by(ALICE) - {0} == {case.denied}
    assert host.node.quorum.core.log.end == end, "nothing has changed"
    assert "denied User:alice from 127.0.0.1 the operation " in "".join(host.log_lines)
    for acl in case.needs:
        principal = f"User:{acl}"
        allow(host, *acl, principal)
        assert case.denied not in asked_by(principal), acl


def test_every_served_api_has_a_rule() -> None:
    """One without is for super users alone."""
    assert rules.RULES.keys() == SERVED.keys()


def test_the_documentation_has_the_rules() -> None:
    with open("docs/operate/authorization-apis.md", encoding="utf-8") as page:
        assert rules.table() in page.read()


def test_an_api_without_a_rule_is_for_super_users(
    host: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(rules.RULES, ApiKey.UPDATE_FEATURES)
    request = update_features.UpdateFeaturesRequest(feature_updates=())
    assert codes(ask(host, ApiKey.UPDATE_FEATURES, 1, request)) == {NO_CLUSTER}
    answer = ask(host, ApiKey.UPDATE_FEATURES, 1, request, principal="User:ANONYMOUS")
    assert codes(answer) == {0}


@pytest.mark.parametrize("key", sorted(SERVED))
def test_no_request_without_permission_changes_anything(host: VirtualHost, key: int) -> None:
    """Whatever is in it, and in every version."""
    api = APIS[key]
    open_to_all = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
    end = host.node.quorum.core.log.end
    listener = BROKER if api.listeners & BROKER else CONTROLLER
    for version in SERVED[key].versions:
        for seed in range(5):
            request = Sampler(Random(seed)).message(api.request(), version)
            client = FrameClient(host, listener)
            client.connection.principal = ALICE
            client.send(key, version, request)
            host.settle()
            is_answered = bool(client.take()) or client.connection.failure is not None
            assert is_answered or key in open_to_all or getattr(request, "acks", 1) == 0
    assert host.node.quorum.core.log.end == end
    assert {ALICE} & {each.principal for each in host.node.image.acls.values()} == set()


# What is hidden ----------------------------------------------------------------------------------


def test_all_topics_are_those_that_may_be_described(host: VirtualHost) -> None:
    allow(host, DESCRIBE, Type.TOPIC, "t")
    for version, topics in ((0, ()), (9, None)):
        answer = ask(host, ApiKey.METADATA, version, metadata.MetadataRequest(topics=topics))
        assert [(it.name, it.error_code) for it in answer.topics] == [("t", 0)]
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=())
    answer = ask(host, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
    assert [(it.name, it.error_code) for it in answer.topics] == [("t", 0)]


def test_a_denied_topic_of_version_0_is_not_all_topics(host: VirtualHost) -> None:
    """An empty list means all topics there."""
    allow(host, DESCRIBE, Type.TOPIC, "t")
    request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="hidden")])
    answer = ask(host, ApiKey.METADATA, 0, request)
    assert [(it.name, it.error_code) for it in answer.topics] == [("hidden", NO_TOPIC)]
    assert len(answer.brokers) == 1


def test_a_topic_that_may_not_be_described_is_as_good_as_none(host: VirtualHost) -> None:
    """By name both are denied. Ids are no secret: with one, the topic stays nameless."""
    topic_id = host.node.image.topic_ids["hidden"]
    by_name = [metadata.MetadataRequestTopic(name=name) for name in ("hidden", "none")]
    answer = ask(host, ApiKey.METADATA, 12, metadata.MetadataRequest(topics=by_name))
    assert [it.error_code for it in answer.topics] == [NO_TOPIC, NO_TOPIC]
    by_id = [
        metadata.MetadataRequestTopic(name=None, topic_id=each) for each in (topic_id, b"x" * 16)
    ]
    answer = ask(host, ApiKey.METADATA, 12, metadata.MetadataRequest(topics=by_id))
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    found = {it.topic_id: (it.name, it.error_code) for it in answer.topics}
    assert found == {topic_id: (None, NO_TOPIC), b"x" * 16: (None, unknown)}
    deleted = delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=1000
    )
    [result] = ask(host, ApiKey.DELETE_TOPICS, 6, deleted).responses
    assert (result.name, result.error_code) == (None, NO_TOPIC)
    deleted = delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState(name=None, topic_id=b"x" * 16)], timeout_ms=1000
    )
    [result] = ask(host, ApiKey.DELETE_TOPICS, 6, deleted).responses
    assert (result.name, result.error_code) == (None, unknown)


def test_missing_topics_are_created_for_those_who_may(host: VirtualHost) -> None:
    allow(host, DESCRIBE, Type.TOPIC, "new")
    topics = [metadata.MetadataRequestTopic(name="new")]
    request = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=True)
    assert codes(ask(host, ApiKey.METADATA, 9, request)) == {0, NO_TOPIC}
    assert "new" not in host.node.image.topic_ids
    allow(host, Operation.CREATE, Type.TOPIC, "new")
    request = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=True)
    ask(host, ApiKey.METADATA, 9, request)
    assert "new" in host.node.image.topic_ids


def test_operations_are_those_that_the_client_may_do(host: VirtualHost) -> None:
    allow(host, READ, Type.TOPIC, "t")
    allow(host, DESCRIBE, Type.GROUP, "g")
    request = metadata.MetadataRequest(
        topics=None,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    answer = ask(host, ApiKey.METADATA, 9, request)
    assert [it.topic_authorized_operations for it in answer.topics] == [1 << READ | 1 << DESCRIBE]
    assert answer.cluster_authorized_operations == 0
    wanted = describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert ask(host, ApiKey.DESCRIBE_CLUSTER, 1, wanted).cluster_authorized_operations == 0
    groups = describe_groups.DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    [group] = ask(host, ApiKey.DESCRIBE_GROUPS, 5, groups).groups
    assert group.authorized_operations in {1 << DESCRIBE, -(2**31)}


def test_groups_are_listed_to_those_who_may_describe_them(host: VirtualHost) -> None:
    for group in ("g", "h"):
        committing = committed(group)
        assert codes(
            ask(host, ApiKey.OFFSET_COMMIT, 8, committing, principal="User:ANONYMOUS")
        ) <= {
            0,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        }
    request = list_groups.ListGroupsRequest(states_filter=(), types_filter=())
    everything = ask(host, ApiKey.LIST_GROUPS, 4, request, principal="User:ANONYMOUS").groups
    assert not ask(host, ApiKey.LIST_GROUPS, 4, request).groups
    allow(host, DESCRIBE, Type.GROUP, "g")
    listed = ask(host, ApiKey.LIST_GROUPS, 4, request).groups
    assert [it.group_id for it in listed] == [
        it.group_id for it in everything if it.group_id == "g"
    ]


def test_consumers_may_name_and_see_only_topics_that_they_may_describe(
    host: VirtualHost,
) -> None:
    create(host, {"__consumer_offsets": 1})
    key, see = ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE
    for operation in (READ, DESCRIBE):
        allow(host, operation, Type.GROUP, "g")
    assert codes(ask(host, key, 1, heartbeat_naming("t"))) == {NO_TOPIC}
    everyone = "User:ANONYMOUS"
    assert codes(ask(host, key, 1, heartbeat_naming("t"), principal=everyone)) == {0}

    def described() -> Any:
        request = consumer_group_describe.ConsumerGroupDescribeRequest(
            group_ids=["g"], include_authorized_operations=True
        )
        [group] = ask(host, see, 1, request).groups
        return group

    refused = described()
    assert (refused.error_code, list(refused.members)) == (NO_TOPIC, [])
    assert "not authorized to describe" in refused.error_message
    allow(host, DESCRIBE, Type.TOPIC, "t")
    assert codes(ask(host, key, 1, heartbeat_naming("t"))) == {0}
    shown = described()
    assert (shown.error_code, len(shown.members)) == (0, 1)
    assert shown.authorized_operations == (1 << READ) | (1 << DESCRIBE)


def test_the_configs_of_a_new_topic_are_hidden(host: VirtualHost) -> None:
    allow(host, Operation.CREATE, Type.CLUSTER, CLUSTER_NAME)
    [topic] = ask(host, ApiKey.CREATE_TOPICS, 7, new_topic("new")).topics
    assert (topic.error_code, topic.topic_config_error_code) == (0, NO_TOPIC)
    assert (topic.num_partitions, topic.replication_factor, list(topic.configs)) == (-1, -1, [])


# Partly allowed ----------------------------------------------------------------------------------


def test_the_allowed_part_of_a_request_is_served(host: VirtualHost) -> None:
    allow(host, WRITE, Type.TOPIC, "t")
    request = produced("t")
    request.topic_data += produced("hidden").topic_data  # type: ignore[attr-defined]  # a produce
    answer = ask(host, ApiKey.PRODUCE, 9, request)
    found = {it.name: it.partition_responses[0].error_code for it in answer.responses}
    assert found == {"t": 0, "hidden": NO_TOPIC}


def test_a_denied_write_without_acks_closes_the_connection(host: VirtualHost) -> None:
    client = FrameClient(host)
    client.connection.principal = ALICE
    client.send(ApiKey.PRODUCE, 9, produced("t", acks=0))
    host.settle()
    assert isinstance(client.connection.failure, UnansweredError)
    assert client.take() == []


def test_a_transactional_id_needs_write(host: VirtualHost) -> None:
    allow(host, WRITE, Type.TOPIC, "t")
    request = produced("t", transactional_id="x")
    assert codes(ask(host, ApiKey.PRODUCE, 9, request)) == {NO_TRANSACTION}


def test_committing_needs_the_topic_too(host: VirtualHost) -> None:
    allow(host, READ, Type.GROUP, "g")
    assert codes(ask(host, ApiKey.OFFSET_COMMIT, 8, committed())) == {NO_TOPIC}


def test_a_repeated_produce_is_denied_once_the_acl_is_gone(host: VirtualHost) -> None:
    """The fast path, which decodes nothing, forgets what it has learnt."""
    allow(host, WRITE, Type.TOPIC, "t")
    client = FrameClient(host)
    client.connection.principal = ALICE
    for expected in (0, 0, 0, NO_TOPIC, NO_TOPIC):
        if expected and host.node.authorizer is not None:
            host.node.authorizer.replace(())
        client.send(ApiKey.PRODUCE, 9, produced("t"))
        host.settle()
        [(_, answer)] = client.take()
        assert codes(answer) == {expected}


# Fetch sessions ----------------------------------------------------------------------------------


def fetch_as(host: VirtualHost, request: fetch.FetchRequest, who: str = ALICE) -> Any:
    return ask(host, ApiKey.FETCH, 12, request, principal=who)


def test_a_session_ends_with_the_permission(host: VirtualHost) -> None:
    """The client then asks for everything again, and is told what it may not read."""
    allow(host, READ, Type.TOPIC, "t")
    session_id = fetch_as(host, fetched("t", session=(0, 0))).session_id
    assert session_id
    assert fetch_as(host, fetched(session=(session_id, 1))).error_code == 0
    assert host.node.authorizer is not None
    host.node.authorizer.replace(())
    refused = fetch_as(host, fetched(session=(session_id, 2)))
    assert refused.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    answer = fetch_as(host, fetched("t", session=(0, 0)))
    assert (answer.session_id, codes(answer)) == (0, {0, NO_TOPIC})


def test_a_session_is_of_no_use_to_others(host: VirtualHost) -> None:
    allow(host, READ, Type.TOPIC, "t")
    session_id = fetch_as(host, fetched("t", session=(0, 0))).session_id
    stolen = fetch_as(host, fetched(session=(session_id, 1)), "User:mallory")
    assert stolen.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert fetch_as(host, fetched(session=(session_id, 1))).error_code == 0
    allow(host, READ, Type.TOPIC, "t", "User:mallory")
    stolen = fetch_as(host, fetched(session=(session_id, 2)), "User:mallory")
    assert stolen.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert fetch_as(host, fetched(session=(session_id, 2))).error_code == 0


def test_what_is_denied_is_not_kept_in_a_session(host: VirtualHost) -> None:
    allow(host, READ, Type.TOPIC, "t")
    answer = fetch_as(host, fetched("t", "hidden", session=(0, 0)))
    found = {it.topic: it.partitions[0].error_code for it in answer.responses}
    assert (answer.session_id, found) == (0, {"t": 0, "hidden": NO_TOPIC})


def test_a_topic_that_is_unknown_is_not_kept_in_a_session(host: VirtualHost) -> None:
    """This broker may learn of it later: then nobody would ask whether the client may read it."""
    part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = fetch.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_id=0,
        session_epoch=0,
        topics=[fetch.FetchTopic(topic_id=b"x" * 16, partitions=[part])],
        forgotten_topics_data=(),
    )
    answer = ask(host, ApiKey.FETCH, 13, request)
    assert (answer.session_id, codes(answer)) == (0, {0, ErrorCode.UNKNOWN_TOPIC_ID})


def answer_after_waiting(report: Callable[[SendRequest], Any]) -> Any:
    """What a client gets that may create a topic no more, once a controller answers its broker.

    Before, each request to a controller ends in a report.
    """
    nodes = SecuredNodes(Random(1))
    nodes.loss = 0
    waiting = next(each for each in NODES if nodes.hosts[each] is not nodes.host)
    host, send = nodes.hosts[waiting], nodes.network._send
    assert host.node.authorizer is not None
    allow(host, Operation.CREATE, Type.TOPIC, "new")

    def refuse(source: int, effect: SendRequest) -> None:
        if source == waiting:
            nodes.network._report(source, report(effect))
        else:
            send(source, effect)

    nodes.network._send = refuse  # type: ignore[method-assign]  # a fault begins
    client = FrameClient(host)
    client.connection.principal = ALICE
    request = new_topic("new")
    request.timeout_ms = 60_000  # type: ignore[attr-defined]  # a CreateTopicsRequest
    client.send(ApiKey.CREATE_TOPICS, 7, request)
    nodes.settle(200)
    assert client.take() == []
    host.node.authorizer.replace(())
    nodes.network._send = send  # type: ignore[method-assign]  # it ends
    nodes.settle(5000)
    [(_, answer)] = client.take()
    return answer


def test_a_request_that_has_waited_for_a_controller_is_asked_about_again() -> None:
    def no_controller(effect: SendRequest) -> Any:
        if effect.api_key != ApiKey.CREATE_TOPICS:
            return RequestFailed(effect.channel, effect.peer, effect.number)
        code = ErrorCode.NOT_CONTROLLER
        response = error_response(effect.api_key, effect.version, effect.request, code)
        return ResponseReceived(effect.channel, effect.peer, effect.number, response)

    assert codes(answer_after_waiting(no_controller)) == {NO_TOPIC}


def test_a_request_that_may_have_had_an_effect_is_not_denied() -> None:
    """The controller may have carried it out; the client asks again, and is told the truth."""
    answer = answer_after_waiting(
        lambda effect: RequestFailed(effect.channel, effect.peer, effect.number)
    )
    assert codes(answer) == {ErrorCode.REQUEST_TIMED_OUT}


def test_followers_need_cluster_action(host: VirtualHost) -> None:
    request = fetched("t")
    request.replica_id = 1
    assert codes(fetch_as(host, request)) == {0, NO_TOPIC}
    allow(host, Operation.CLUSTER_ACTION, Type.CLUSTER, CLUSTER_NAME)
    request = fetched("t")
    request.replica_id = 1
    assert NO_TOPIC not in codes(fetch_as(host, request))


# Forwarded by Kafka's brokers --------------------------------------------------------------------


def enveloped(principal: bytes | None, address: bytes = b"\x7f\0\0\1") -> Message:
    from kraftlog.wire.frames import request_frame

    frame = b"".join(request_frame(APIS[ApiKey.CREATE_TOPICS], 7, 1, "c", new_topic("new")))
    return envelope.EnvelopeRequest(
        request_data=frame[4:], request_principal=principal, client_host_address=address
    )


def encoded(name: str) -> bytes:
    from kraftlog.wire.codec import encode

    data = DefaultPrincipalData(type="User", name=name, token_authenticated=False)
    return b"\0\0" + bytes(encode(data, 0))


def test_an_envelope_needs_cluster_action_and_its_client_permission(host: VirtualHost) -> None:
    def ask_as(principal: str, request: Message) -> Any:
        return ask(host, ApiKey.ENVELOPE, 0, request, listener=CONTROLLER, principal=principal)

    assert ask_as(ALICE, enveloped(encoded("bob"))).error_code == NO_CLUSTER
    for broken in (None, b"", b"\0", b"\0\0\xff\xff", b"\0\1"):
        answer = ask_as("User:ANONYMOUS", enveloped(broken))
        assert answer.error_code == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    answer = ask_as("User:ANONYMOUS", enveloped(encoded("bob"), b"1234567"))
    assert answer.error_code == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    answer = ask_as("User:ANONYMOUS", enveloped(encoded("bob")))
    assert (answer.error_code, "new" in host.node.image.topic_ids) == (0, False)
    allow(host, Operation.CREATE, Type.CLUSTER, CLUSTER_NAME, "User:bob")
    ask_as("User:ANONYMOUS", enveloped(encoded("bob")))
    host.settle()
    assert "new" in host.node.image.topic_ids


# The log -----------------------------------------------------------------------------------------


def test_denials_are_logged_once_a_second_and_counted(host: VirtualHost) -> None:
    host.log_lines.clear()
    for _ in range(3):
        ask(host, ApiKey.PRODUCE, 9, produced("t"))
    [line] = host.log_lines
    assert "denied User:alice from 127.0.0.1 the operation WRITE on TOPIC t (Produce)" in line
    assert host.node.denials.count == 3
    host.pass_time(1000)
    ask(host, ApiKey.PRODUCE, 9, produced("t"))
    assert "(2 more since the last such line)" in host.log_lines[-1]
