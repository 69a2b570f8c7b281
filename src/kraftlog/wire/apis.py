"""All APIs: their keys, versions, listeners and schemas.

The table is separate from the message classes, so that a node can answer ApiVersions without
importing them; a test compares the two.
"""

from __future__ import annotations

from importlib import import_module

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.wire.schema import Message

#: The listeners that serve an API, as bits.
BROKER = 1
CONTROLLER = 2
BOTH = BROKER | CONTROLLER

#: The key of the first of our own APIs, and the software name of our clients: only to these clients
#: do we advertise our own APIs.
FIRST_OWN = 20_000
OWN_CLIENT = "kraftlog"
#: The first flexible version of an API that has none.
NEVER = 0x7FFF


class ApiKey:
    """Kafka's API keys."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    UNREGISTER_CONTROLLER = 94
    # Our own APIs, far from Kafka's keys, which are consecutive from 0.
    DISCOVER_BROKERS = 20000
    READ_OFFSET = 20001
    REMOVE_PARTITIONS = 20002


#: What a client may request before it has logged in.
LOGIN = frozenset((ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
#: Requests between nodes: those that Kafka calls cluster actions, and kraftlog's own. Nodes send
#: Fetch too.
BETWEEN_NODES = frozenset(
    (
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.READ_OFFSET,
        ApiKey.DISCOVER_BROKERS,
        ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.ENVELOPE,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    )
)


class Api(Value):
    """One API: its supported versions, and the first flexible one."""

    key: int
    name: str
    first: int
    last: int
    flexible: int
    listeners: int

    @property
    def module(self) -> str:
        return "".join([f"_{c.lower()}" if c.isupper() else c for c in self.name]).lstrip("_")

    def request(self) -> type[Message]:
        return self._class("Request")

    def response(self) -> type[Message]:
        return self._class("Response")

    def _class(self, which: str) -> type[Message]:
        """Import the class on first use, which shortens the start, and cache it."""
        found = _classes.get((self.key, which))
        if found is None:
            module: Any = import_module(f"kraftlog.wire.messages.{self.module}")
            found = _classes[self.key, which] = getattr(module, self.name + which)
        return found

    def request_header_version(self, version: int) -> int:
        return 2 if version >= self.flexible else 1

    def response_header_version(self, version: int) -> int:
        """The response header's version; always 0 for ApiVersions, as clients may know no other."""
        return 1 if version >= self.flexible and self.key != ApiKey.API_VERSIONS else 0


_classes: dict[tuple[int, str], type[Message]] = {}

APIS = {
    api.key: api
    for api in (
        Api(0, "Produce", 3, 13, 9, BROKER),
        Api(1, "Fetch", 4, 18, 12, BOTH),
        Api(2, "ListOffsets", 1, 11, 6, BROKER),
        Api(3, "Metadata", 0, 13, 9, BROKER),
        Api(8, "OffsetCommit", 2, 10, 8, BROKER),
        Api(9, "OffsetFetch", 1, 10, 6, BROKER),
        Api(10, "FindCoordinator", 0, 6, 3, BROKER),
        Api(11, "JoinGroup", 0, 9, 6, BROKER),
        Api(12, "Heartbeat", 0, 4, 4, BROKER),
        Api(13, "LeaveGroup", 0, 5, 4, BROKER),
        Api(14, "SyncGroup", 0, 5, 4, BROKER),
        Api(15, "DescribeGroups", 0, 6, 5, BROKER),
        Api(16, "ListGroups", 0, 5, 3, BROKER),
        Api(17, "SaslHandshake", 0, 1, NEVER, BOTH),
        Api(18, "ApiVersions", 0, 5, 3, BOTH),
        Api(19, "CreateTopics", 2, 7, 5, BOTH),
        Api(20, "DeleteTopics", 1, 6, 4, BOTH),
        Api(21, "DeleteRecords", 0, 2, 2, BROKER),
        Api(22, "InitProducerId", 0, 6, 2, BROKER),
        Api(23, "OffsetForLeaderEpoch", 2, 4, 4, BROKER),
        Api(24, "AddPartitionsToTxn", 0, 5, 3, BROKER),
        Api(25, "AddOffsetsToTxn", 0, 4, 3, BROKER),
        Api(26, "EndTxn", 0, 5, 3, BROKER),
        Api(27, "WriteTxnMarkers", 1, 2, 1, BROKER),
        Api(28, "TxnOffsetCommit", 0, 6, 3, BROKER),
        Api(29, "DescribeAcls", 1, 3, 2, BOTH),
        Api(30, "CreateAcls", 1, 3, 2, BOTH),
        Api(31, "DeleteAcls", 1, 3, 2, BOTH),
        Api(32, "DescribeConfigs", 1, 4, 4, BOTH),
        Api(33, "AlterConfigs", 0, 2, 2, BOTH),
        Api(34, "AlterReplicaLogDirs", 1, 2, 2, BROKER),
        Api(35, "DescribeLogDirs", 1, 5, 2, BROKER),
        Api(36, "SaslAuthenticate", 0, 2, 2, BOTH),
        Api(37, "CreatePartitions", 0, 3, 2, BOTH),
        Api(38, "CreateDelegationToken", 1, 3, 2, BOTH),
        Api(39, "RenewDelegationToken", 1, 2, 2, BOTH),
        Api(40, "ExpireDelegationToken", 1, 2, 2, BOTH),
        Api(41, "DescribeDelegationToken", 1, 3, 2, BOTH),
        Api(42, "DeleteGroups", 0, 3, 2, BROKER),
        Api(43, "ElectLeaders", 0, 2, 2, BOTH),
        Api(44, "IncrementalAlterConfigs", 0, 1, 1, BOTH),
        Api(45, "AlterPartitionReassignments", 0, 1, 0, BOTH),
        Api(46, "ListPartitionReassignments", 0, 0, 0, BOTH),
        Api(47, "OffsetDelete", 0, 0, NEVER, BROKER),
        Api(48, "DescribeClientQuotas", 0, 1, 1, BROKER),
        Api(49, "AlterClientQuotas", 0, 1, 1, BOTH),
        Api(50, "DescribeUserScramCredentials", 0, 0, 0, BOTH),
        Api(51, "AlterUserScramCredentials", 0, 0, 0, BOTH),
        Api(52, "Vote", 0, 2, 0, CONTROLLER),
        Api(53, "BeginQuorumEpoch", 0, 1, 1, CONTROLLER),
        Api(54, "EndQuorumEpoch", 0, 1, 1, CONTROLLER),
        Api(55, "DescribeQuorum", 0, 2, 0, BOTH),
        Api(56, "AlterPartition", 2, 3, 0, CONTROLLER),
        Api(57, "UpdateFeatures", 0, 2, 0, BOTH),
        Api(58, "Envelope", 0, 0, 0, CONTROLLER),
        Api(59, "FetchSnapshot", 0, 1, 0, CONTROLLER),
        Api(60, "DescribeCluster", 0, 2, 0, BOTH),
        Api(61, "DescribeProducers", 0, 0, 0, BROKER),
        Api(62, "BrokerRegistration", 0, 4, 0, CONTROLLER),
        Api(63, "BrokerHeartbeat", 0, 2, 0, CONTROLLER),
        Api(64, "UnregisterBroker", 0, 0, 0, BOTH),
        Api(65, "DescribeTransactions", 0, 0, 0, BROKER),
        Api(66, "ListTransactions", 0, 2, 0, BROKER),
        Api(67, "AllocateProducerIds", 0, 0, 0, CONTROLLER),
        Api(68, "ConsumerGroupHeartbeat", 0, 1, 0, BROKER),
        Api(69, "ConsumerGroupDescribe", 0, 1, 0, BROKER),
        Api(70, "ControllerRegistration", 0, 0, 0, CONTROLLER),
        Api(71, "GetTelemetrySubscriptions", 0, 0, 0, BROKER),
        Api(72, "PushTelemetry", 0, 0, 0, BROKER),
        Api(73, "AssignReplicasToDirs", 0, 0, 0, CONTROLLER),
        Api(74, "ListConfigResources", 0, 1, 0, BROKER),
        Api(75, "DescribeTopicPartitions", 0, 0, 0, BROKER),
        Api(80, "AddRaftVoter", 0, 1, 0, BOTH),
        Api(81, "RemoveRaftVoter", 0, 0, 0, BOTH),
        Api(82, "UpdateRaftVoter", 0, 0, 0, CONTROLLER),
        Api(94, "UnregisterController", 0, 0, 0, BOTH),
        Api(20000, "DiscoverBrokers", 0, 0, 0, BOTH),
        Api(20001, "ReadOffset", 0, 0, 0, CONTROLLER),
        Api(20002, "RemovePartitions", 0, 0, 0, BOTH),
    )
}
