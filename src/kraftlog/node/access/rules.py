"""What a client needs for each API; an API without a rule is for super users alone."""

from __future__ import annotations

from kraftlog.authorization.acls import Operation
from kraftlog.errors import ErrorCode
from kraftlog.node.access import configs, fetches, groups, tokens, topics
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.apis import APIS, BETWEEN_NODES, CONTROLLER, LOGIN, ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.node.access.asked import Asked


class Rule(Value):
    """`needs`: in words, for the documentation. `permits`: whether the handler may go on."""

    needs: str
    permits: Callable[[Asked], bool]


def rule_of(api_key: int) -> Rule:
    return RULES.get(api_key, CLOSED)


def _anyone(_: Asked) -> bool:
    return True


def _nobody(asked: Asked) -> bool:
    """Super users: they may do what nobody has an ACL for."""
    return asked.allows_on_cluster(Operation.ALL) or asked.refuse()


OPEN = Rule("nothing", _anyone)
CLOSED = Rule("ALL on the cluster", _nobody)


def _on_cluster(operation: int, name: str) -> Rule:
    return Rule(
        f"{name} on the cluster",
        lambda asked: asked.allows_on_cluster(operation) or asked.refuse(),
    )


def _show_operations(asked: Asked) -> bool:
    """Everyone may know the brokers; the response says what the client may do with the cluster."""
    if asked.pending.connection.serves == CONTROLLER and not asked.allows_on_cluster(
        Operation.ALTER
    ):
        return asked.refuse()
    if asked.request.include_cluster_authorized_operations:

        def complete(response: Any) -> None:
            if not response.error_code:
                response.cluster_authorized_operations = asked.operations_on_cluster()

        asked.then(complete)
    return True


def _alter_replica_log_dirs(asked: Asked) -> bool:
    if asked.allows_on_cluster(Operation.ALTER):
        return True
    from kraftlog.wire.messages import alter_replica_log_dirs as api

    by_topic: dict[str, list[int]] = {}
    for directory in asked.request.dirs:
        for topic in directory.topics:
            by_topic.setdefault(topic.name, []).extend(topic.partitions)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    asked.respond(
        results=[
            api.AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    api.AlterReplicaLogDirPartitionResult(partition_index=each, error_code=code)
                    for each in partitions
                ],
            )
            for name, partitions in by_topic.items()
        ]
    )
    return False


_ACTION = _on_cluster(Operation.CLUSTER_ACTION, "CLUSTER_ACTION")
_ALTER = _on_cluster(Operation.ALTER, "ALTER")
_DESCRIBE = _on_cluster(Operation.DESCRIBE, "DESCRIBE")
_DESCRIBE_CONFIGS = _on_cluster(Operation.DESCRIBE_CONFIGS, "DESCRIBE_CONFIGS")
_ALTER_CONFIGS = _on_cluster(Operation.ALTER_CONFIGS, "ALTER_CONFIGS")
_MEMBER = Rule("READ on the group", groups.member)
_CONFIGS = Rule(
    "ALTER_CONFIGS on the topic or group; of brokers and client metrics, on the cluster",
    configs.alter_configs,
)

RULES: dict[int, Rule] = {
    # Nobody has a name before a login.
    **dict.fromkeys(LOGIN, OPEN),
    **dict.fromkeys(BETWEEN_NODES, _ACTION),
    # The cluster
    ApiKey.DESCRIBE_CLUSTER: Rule(
        "nothing; of controllers, ALTER on the cluster", _show_operations
    ),
    ApiKey.DESCRIBE_QUORUM: _DESCRIBE,
    ApiKey.DESCRIBE_LOG_DIRS: _DESCRIBE,
    ApiKey.ADD_RAFT_VOTER: _ALTER,
    ApiKey.REMOVE_RAFT_VOTER: _ALTER,
    ApiKey.UPDATE_FEATURES: _ALTER,
    ApiKey.UNREGISTER_BROKER: _ALTER,
    ApiKey.UNREGISTER_CONTROLLER: _ALTER,
    ApiKey.ELECT_LEADERS: _ALTER,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _ALTER,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _DESCRIBE,
    ApiKey.ALTER_REPLICA_LOG_DIRS: Rule("ALTER on the cluster", _alter_replica_log_dirs),
    # Configs, users, ACLs, quotas
    ApiKey.DESCRIBE_CONFIGS: Rule(
        "DESCRIBE_CONFIGS on the topic or group; of brokers and client metrics, on the cluster",
        configs.describe_configs,
    ),
    ApiKey.ALTER_CONFIGS: _CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _CONFIGS,
    ApiKey.LIST_CONFIG_RESOURCES: _DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_ACLS: _DESCRIBE,
    ApiKey.CREATE_ACLS: _ALTER,
    ApiKey.DELETE_ACLS: _ALTER,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _DESCRIBE,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _ALTER,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _DESCRIBE_CONFIGS,
    ApiKey.ALTER_CLIENT_QUOTAS: _ALTER_CONFIGS,
    # Topics
    ApiKey.METADATA: Rule(
        "DESCRIBE on the topic; to create it, CREATE on the cluster or the topic", topics.metadata
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Rule(
        "DESCRIBE on the topic", topics.describe_topic_partitions
    ),
    ApiKey.CREATE_TOPICS: Rule("CREATE on the cluster or the topic", topics.create_topics),
    ApiKey.DELETE_TOPICS: Rule("DELETE on the cluster or the topic", topics.delete_topics),
    ApiKey.CREATE_PARTITIONS: Rule("ALTER on the topic", topics.create_partitions),
    ApiKey.REMOVE_PARTITIONS: Rule("DELETE on the topic", topics.remove_partitions),
    ApiKey.PRODUCE: Rule("WRITE on the topic and the transactional id", topics.produce),
    ApiKey.FETCH: Rule(
        "READ on the topic; for followers and of controllers, CLUSTER_ACTION on the cluster",
        fetches.fetch,
    ),
    ApiKey.LIST_OFFSETS: Rule("DESCRIBE on the topic", topics.list_offsets),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Rule(
        "DESCRIBE on the topic, or CLUSTER_ACTION on the cluster", topics.offset_for_leader_epoch
    ),
    ApiKey.DELETE_RECORDS: Rule("DELETE on the topic", topics.delete_records),
    ApiKey.DESCRIBE_PRODUCERS: Rule("READ on the topic", topics.describe_producers),
    ApiKey.INIT_PRODUCER_ID: Rule(
        "WRITE on the transactional id; without one WRITE on any topic, or IDEMPOTENT_WRITE on the "
        "cluster",
        groups.init_producer_id,
    ),
    # Groups
    ApiKey.FIND_COORDINATOR: Rule(
        "DESCRIBE on the group or transactional id", groups.find_coordinator
    ),
    ApiKey.JOIN_GROUP: _MEMBER,
    ApiKey.SYNC_GROUP: _MEMBER,
    ApiKey.HEARTBEAT: _MEMBER,
    ApiKey.LEAVE_GROUP: _MEMBER,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Rule(
        "READ on the group and DESCRIBE on the topics that are named", groups.consumer_member
    ),
    ApiKey.OFFSET_COMMIT: Rule("READ on the group and on the topic", groups.offset_commit),
    ApiKey.OFFSET_FETCH: Rule("DESCRIBE on the group and on the topic", groups.offset_fetch),
    ApiKey.OFFSET_DELETE: Rule("DELETE on the group and READ on the topic", groups.offset_delete),
    ApiKey.LIST_GROUPS: Rule("DESCRIBE on the cluster or the group", groups.list_groups),
    ApiKey.DESCRIBE_GROUPS: Rule("DESCRIBE on the group", groups.describe_groups),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Rule(
        "DESCRIBE on the group and on the topics of its members",
        groups.describe_consumer_groups,
    ),
    ApiKey.DELETE_GROUPS: Rule("DELETE on the group", groups.delete_groups),
    # Delegation tokens; the controller knows who may renew and end one.
    ApiKey.CREATE_DELEGATION_TOKEN: Rule(
        "nothing for a token of one's own; for one of another user, CREATE_TOKENS on the user",
        tokens.create,
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: Rule("to be the token's owner or a renewer", _anyone),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Rule("to be the token's owner or a renewer", _anyone),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Rule(
        "to be the token's owner or a renewer, or DESCRIBE on the token, or DESCRIBE_TOKENS on the "
        "owner; others are left out",
        _anyone,
    ),
}


def table() -> str:
    """The rules as a table of Markdown, for the documentation."""
    rows = sorted((APIS[key].name, rule.needs) for key, rule in RULES.items())
    lines = [f"| {name} | {needs} |" for name, needs in rows]
    return "\n".join(["| API | needs |", "|---|---|", *lines])
