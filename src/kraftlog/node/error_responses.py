"""Error responses to requests that are refused as a whole."""

from __future__ import annotations

from kraftlog.types import ANONYMOUS, NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.wire.schema import Message


def error_response(api_key: int, version: int, request: Message, code: int) -> Any:
    """The response with this error code, for the whole request or for each of its items."""
    response_type: Any = APIS[api_key].response()
    fields = _FIELDS.get(api_key)
    if fields is None:
        return response_type(error_code=code)
    return response_type(**fields(request, version, code))


def _module(api_key: int) -> Any:
    from importlib import import_module

    return import_module(f"kraftlog.wire.messages.{APIS[api_key].module}")


def _create_topics(request: Any, _: int, code: int) -> dict[str, Any]:
    result = _module(ApiKey.CREATE_TOPICS).CreatableTopicResult
    return {"topics": [result(name=topic.name, error_code=code) for topic in request.topics]}


def _delete_topics(request: Any, version: int, code: int) -> dict[str, Any]:
    result = _module(ApiKey.DELETE_TOPICS).DeletableTopicResult
    if version < 6:  # topics are identified by name only
        return {"responses": [result(name=name, error_code=code) for name in request.topic_names]}
    return {
        "responses": [
            result(name=topic.name, topic_id=topic.topic_id, error_code=code)
            for topic in request.topics
        ]
    }


def _create_partitions(request: Any, _: int, code: int) -> dict[str, Any]:
    result = _module(ApiKey.CREATE_PARTITIONS).CreatePartitionsTopicResult
    return {"results": [result(name=topic.name, error_code=code) for topic in request.topics]}


def _remove_partitions(request: Any, _: int, code: int) -> dict[str, Any]:
    result = _module(ApiKey.REMOVE_PARTITIONS).RemovePartitionsTopicResult
    return {"results": [result(name=topic.name, error_code=code) for topic in request.topics]}


def _configs(api_key: int) -> Callable[[Any, int, int], dict[str, Any]]:
    def fields(request: Any, _: int, code: int) -> dict[str, Any]:
        result = _module(api_key).AlterConfigsResourceResponse
        return {
            "responses": [
                result(
                    error_code=code,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource in request.resources
            ]
        }

    return fields


def _elect_leaders(_: Any, version: int, code: int) -> dict[str, Any]:
    # Version 0 has no error code for the whole request.
    return {"error_code": code if version else 0, "replica_election_results": ()}


def _describe_topic_partitions(request: Any, _: int, code: int) -> dict[str, Any]:
    """If all topics are requested, one without a name has the error: the response has no code."""
    result = _module(ApiKey.DESCRIBE_TOPIC_PARTITIONS).DescribeTopicPartitionsResponseTopic
    names = [topic.name for topic in request.topics] or [None]
    return {
        "topics": [
            result(error_code=code, name=name, topic_id=NULL_UUID, partitions=()) for name in names
        ],
        "next_cursor": None,
    }


def _describe_configs(request: Any, _: int, code: int) -> dict[str, Any]:
    result = _module(ApiKey.DESCRIBE_CONFIGS).DescribeConfigsResult
    return {
        "results": [
            result(
                error_code=code,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=(),
            )
            for resource in request.resources
        ]
    }


def _alter_scram(request: Any, _: int, code: int) -> dict[str, Any]:
    result = _module(ApiKey.ALTER_USER_SCRAM_CREDENTIALS).AlterUserScramCredentialsResult
    names = dict.fromkeys([each.name for each in (*request.deletions, *request.upsertions)])
    return {"results": [result(user=name, error_code=code) for name in names]}


def _create_acls(request: Any, _: int, code: int) -> dict[str, Any]:
    result = _module(ApiKey.CREATE_ACLS).AclCreationResult(error_code=code)
    return {"results": [result] * len(request.creations)}


def _delete_acls(request: Any, _: int, code: int) -> dict[str, Any]:
    result = _module(ApiKey.DELETE_ACLS).DeleteAclsFilterResult(error_code=code, matching_acls=())
    return {"filter_results": [result] * len(request.filters)}


def _alter_client_quotas(request: Any, _: int, code: int) -> dict[str, Any]:
    module = _module(ApiKey.ALTER_CLIENT_QUOTAS)
    return {
        "entries": [
            module.EntryResult(error_code=code, entity=entry.entity) for entry in request.entries
        ]
    }


def _create_token(_: Any, version: int, code: int) -> dict[str, Any]:
    kind, _, name = ANONYMOUS.partition(":")
    fields = {
        "error_code": code,
        "principal_type": kind,
        "principal_name": name,
        "issue_timestamp_ms": -1,
        "expiry_timestamp_ms": -1,
        "max_timestamp_ms": -1,
        "token_id": "",
        "hmac": b"",
    }
    if version >= 3:
        fields |= {"token_requester_principal_type": kind, "token_requester_principal_name": name}
    return fields


def _join_group(_: Any, version: int, code: int) -> dict[str, Any]:
    return {
        "error_code": code,
        "generation_id": -1,
        "protocol_name": "" if version < 7 else None,
        "leader": "",
        "member_id": "",
        "members": (),
    }


def _describe_consumer_groups(request: Any, _: int, code: int) -> dict[str, Any]:
    from kraftlog.groups.consumer.describe import error_result

    group_ids = dict.fromkeys(request.group_ids)
    return {"groups": [error_result(group_id, code) for group_id in group_ids]}


def _with(**others: Any) -> Callable[[Any, int, int], dict[str, Any]]:
    """The error code, and other required fields."""

    def fields(_: Any, __: int, code: int) -> dict[str, Any]:
        return {"error_code": code, **others}

    return fields


_FIELDS: dict[int, Callable[[Any, int, int], dict[str, Any]]] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.REMOVE_PARTITIONS: _remove_partitions,
    ApiKey.ALTER_CONFIGS: _configs(ApiKey.ALTER_CONFIGS),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs(ApiKey.INCREMENTAL_ALTER_CONFIGS),
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _with(member_epoch=0, heartbeat_interval_ms=0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _describe_consumer_groups,
    ApiKey.BROKER_HEARTBEAT: _with(should_shut_down=False),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_scram,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALLOCATE_PRODUCER_IDS: _with(producer_id_start=-1, producer_id_len=0),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _with(responses=()),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _with(topics=()),
    ApiKey.ALTER_PARTITION: _with(topics=()),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _with(directories=()),
    ApiKey.DESCRIBE_QUORUM: _with(topics=()),
    ApiKey.METADATA: _with(brokers=(), topics=()),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.DESCRIBE_CLUSTER: _with(cluster_id="", brokers=()),
    ApiKey.LIST_CONFIG_RESOURCES: _with(config_resources=()),
    ApiKey.DESCRIBE_ACLS: _with(resources=()),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _with(results=()),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _with(entries=None),
    ApiKey.CREATE_DELEGATION_TOKEN: _create_token,
    ApiKey.RENEW_DELEGATION_TOKEN: _with(expiry_timestamp_ms=0),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _with(expiry_timestamp_ms=0),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _with(tokens=()),
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.DESCRIBE_LOG_DIRS: _with(results=()),
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.SYNC_GROUP: _with(assignment=b""),
    ApiKey.VOTE: _with(topics=()),
    ApiKey.BEGIN_QUORUM_EPOCH: _with(topics=()),
    ApiKey.END_QUORUM_EPOCH: _with(topics=()),
    ApiKey.FETCH: _with(responses=()),
    ApiKey.FETCH_SNAPSHOT: _with(topics=()),
    ApiKey.READ_OFFSET: _with(cluster_id="", topics=()),
    ApiKey.DISCOVER_BROKERS: _with(cluster_id=None, leader_epoch=-1, brokers=()),
}
