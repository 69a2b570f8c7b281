"""A client with a name of its own, where all others are super users: it tries what it may not do.

One thing it may do at times: create topics whose names begin with `OPEN`.
"""

from __future__ import annotations

from kraftlog.authorization.acls import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from kraftlog.errors import ErrorCode
from kraftlog.records.builder import BatchBuilder
from kraftlog.runner.peers import PeerChannels
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import alter_partition_reassignments as reassignments
from kraftlog.wire.messages import offset_commit, produce
from kraftlog.wire.messages.alter_partition import AlterPartitionRequest
from kraftlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kraftlog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kraftlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kraftlog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraftlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kraftlog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraftlog.wire.messages.unregister_broker import UnregisterBrokerRequest
from kraftlog_simulator.cluster.clients import Client
from kraftlog_simulator.cluster.group_member import GROUP
from kraftlog_simulator.cluster.settings_administrator import SET, TOPIC
from kraftlog_simulator.nodes.connections import BROKER_PORT, CONTROLLER_PORT, VirtualPeers
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.effects import SendRequest
    from kraftlog.metadata.values import PartitionKey
    from kraftlog.runner.peers import PeerChannel
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message
    from kraftlog_simulator.cluster.clients import ClientWorld

PRINCIPAL = "User:stranger"
#: The beginning of the names of topics that the stranger may create at times.
OPEN = "open-"
#: A value that no record of another client and no config has.
MARK = 1_000_000_007
REQUEST_MS = 1000
#: The pause between two attempts: minimum and maximum.
GAP_MS = (20, 200)
DENIALS = frozenset(
    (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    )
)


class _UnwatchedPeers(VirtualPeers):
    """The world takes requests to controllers for those of nodes; these are not."""

    def send(self, effect: SendRequest) -> None:
        PeerChannels.send(self, effect)

    def _put(
        self, channel: PeerChannel, api_key: int, version: int, correlation: int, request: Message
    ) -> None:
        PeerChannels._put(self, channel, api_key, version, correlation, request)


class Stranger(Client):
    """Sends one request after the other; each must be denied, unless it is allowed at times."""

    principal = PRINCIPAL

    def __init__(self, world: ClientWorld, number: int) -> None:
        super().__init__(world, number)
        self.peers = _UnwatchedPeers(self, self._receive)  # type: ignore[arg-type]  # as in `Client`
        self.is_running = self.creates_after_faults = False
        #: Names of topics that were denied, and of those that no node may allow: none may exist.
        self.denied: set[str] = set()
        self.must_be_denied: set[str] = set()
        #: The last answer to what it may do at times: whether it was allowed.
        self.was_allowed = False
        self._topics = 0
        self._attempt_at_ms = 0

    def begin(self) -> None:
        self.is_running = True
        self.take_turn()

    def deadline(self) -> int | None:
        return self._attempt_at_ms if self.is_running else None

    def work(self, now: Now) -> None:
        if not self.is_running or self._attempt_at_ms > now.monotonic_ms:
            return
        self._attempt_at_ms = now.monotonic_ms + self.rng.between(*GAP_MS)
        if self.rng.below(2):
            self._create_topic()
            return
        keys = self.world.keys
        if keys and self.rng.below(2):
            key = self.rng.pick(keys)
            leader = max(self.leader_of(key, now), self.world.setting.brokers[0])
            self._try(*self.rng.pick(_ON_PARTITION)(self, key, leader))
        else:
            self._try(*self.rng.pick(_OTHERS)(self))

    def _try(self, api_key: int, request: Message, node: int) -> None:
        """Send what must be denied to a node."""

        def on_response(response: Any, _: Now) -> None:
            if response is None:
                return
            codes = set(codes_of(response)) - {ErrorCode.NONE}
            if not codes or codes - DENIALS:
                raise Violation("denied", f"{self} got {codes or 'no error'} for {request}")
            self.world.saw("stranger denied")

        port = CONTROLLER_PORT if api_key in _OF_CONTROLLERS else BROKER_PORT
        self.send_request(node, api_key, request, REQUEST_MS, on_response, port)

    # What it may do at times ---------------------------------------------------------------------

    def _create_topic(self) -> None:
        if self.world.healed and not self.creates_after_faults:
            return
        self._topics += 1
        name = f"{OPEN}{self._topics}"
        if self.world.is_known_without_acls:
            self.world.saw("stranger without an ACL anywhere")
            self.must_be_denied.add(name)
        topic = CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=self.world.setting.replication,
            assignments=[],
            configs=[],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=REQUEST_MS)

        def on_response(response: Any, _: Now) -> None:
            if response is None:
                return
            code = response.topics[0].error_code
            self.world.count_response("topic of a stranger", code)
            if code in DENIALS:
                self.denied.add(name)
                self.was_allowed = False
            elif not code:
                self.was_allowed = True

        broker = self.some_broker()
        self.send_request(broker, ApiKey.CREATE_TOPICS, request, REQUEST_MS, on_response)

    # What it must never do -----------------------------------------------------------------------

    def _produce(self, key: PartitionKey, leader: int) -> tuple[int, Message, int]:
        builder = BatchBuilder()
        builder.append(0, None, str(MARK).encode())
        part = produce.PartitionProduceData(index=key[1], records=builder.build())
        topic = produce.TopicProduceData(topic_id=key[0], partition_data=[part])
        request = produce.ProduceRequest(acks=-1, timeout_ms=REQUEST_MS, topic_data=[topic])
        return ApiKey.PRODUCE, request, leader

    def _name_of(self, key: PartitionKey) -> str:
        topic = self.world.image.topics.get(key[0])
        return topic.name if topic is not None else "none"

    def _delete_records(self, key: PartitionKey, leader: int) -> tuple[int, Message, int]:
        part = DeleteRecordsPartition(partition_index=key[1], offset=-1)
        topic = DeleteRecordsTopic(name=self._name_of(key), partitions=[part])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=REQUEST_MS)
        return ApiKey.DELETE_RECORDS, request, leader

    def _delete_topic(self, key: PartitionKey, _: int) -> tuple[int, Message, int]:
        topics = [DeleteTopicState(name=self._name_of(key))]
        request = DeleteTopicsRequest(topics=topics, timeout_ms=REQUEST_MS)
        return ApiKey.DELETE_TOPICS, request, self.some_broker()

    def _configure(self, key: PartitionKey, _: int) -> tuple[int, Message, int]:
        config = AlterableConfig(name="retention.ms", config_operation=SET, value=str(MARK))
        resource = AlterConfigsResource(
            resource_type=TOPIC, resource_name=self._name_of(key), configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        return ApiKey.INCREMENTAL_ALTER_CONFIGS, request, self.some_broker()

    def _reassign(self, key: PartitionKey, _: int) -> tuple[int, Message, int]:
        replicas = [self.some_broker()]
        moved = reassignments.ReassignablePartition(partition_index=key[1], replicas=replicas)
        topic = reassignments.ReassignableTopic(name=self._name_of(key), partitions=[moved])
        request = reassignments.AlterPartitionReassignmentsRequest(
            timeout_ms=REQUEST_MS, topics=[topic]
        )
        return ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, self.some_broker()

    def _commit_offset(self, key: PartitionKey, _: int) -> tuple[int, Message, int]:
        part = offset_commit.OffsetCommitRequestPartition(
            partition_index=key[1], committed_offset=MARK, committed_metadata=None
        )
        topic = offset_commit.OffsetCommitRequestTopic(name=self._name_of(key), partitions=[part])
        request = offset_commit.OffsetCommitRequest(group_id=GROUP, member_id="", topics=[topic])
        return ApiKey.OFFSET_COMMIT, request, self.some_broker()

    def _admit_itself(self) -> tuple[int, Message, int]:
        creation = AclCreation(
            resource_type=ResourceType.CLUSTER,
            resource_name=CLUSTER_NAME,
            resource_pattern_type=PatternType.LITERAL,
            principal=PRINCIPAL,
            host="*",
            operation=Operation.ALL,
            permission_type=Permission.ALLOW,
        )
        return ApiKey.CREATE_ACLS, CreateAclsRequest(creations=[creation]), self.some_broker()

    def _unregister(self) -> tuple[int, Message, int]:
        request = UnregisterBrokerRequest(broker_id=self.some_broker())
        return ApiKey.UNREGISTER_BROKER, request, self.some_broker()

    def _fence(self) -> tuple[int, Message, int]:
        broker = self.some_broker()
        registered = self.world.image.brokers.get(broker)
        request = BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=registered.epoch if registered is not None else 0,
            current_metadata_offset=0,
            want_fence=True,
            want_shut_down=False,
        )
        return ApiKey.BROKER_HEARTBEAT, request, self._some_controller()

    def _alter_partition(self) -> tuple[int, Message, int]:
        request = AlterPartitionRequest(broker_id=self.some_broker(), broker_epoch=0, topics=[])
        return ApiKey.ALTER_PARTITION, request, self._some_controller()

    def _some_controller(self) -> int:
        return self.rng.below(self.world.setting.voters)


_ON_PARTITION = (
    Stranger._produce,
    Stranger._delete_records,
    Stranger._delete_topic,
    Stranger._configure,
    Stranger._reassign,
    Stranger._commit_offset,
)
_OTHERS = (
    Stranger._admit_itself,
    Stranger._unregister,
    Stranger._fence,
    Stranger._alter_partition,
)
_OF_CONTROLLERS = frozenset((ApiKey.BROKER_HEARTBEAT, ApiKey.ALTER_PARTITION))


def codes_of(message: Any) -> list[int]:
    """All error codes in a response."""
    codes = []
    for field in type(message)._schema:
        value = getattr(message, field.name)
        if field.name == "error_code":
            codes.append(value)
        elif field.is_array and field.struct is not None:
            for each in value or ():
                codes += codes_of(each)
    return codes
