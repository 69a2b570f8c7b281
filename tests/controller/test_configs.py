"""IncrementalAlterConfigs and AlterConfigs, as Kafka checks and records them."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.config.keys import BROKER, TOPIC
from kraftlog.errors import ErrorCode
from kraftlog.types import METADATA_TOPIC
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import alter_configs, incremental_alter_configs
from kraftlog.wire.messages.metadata_records import ConfigRecord
from tests.controller.cluster import Cluster

SET, DELETE, APPEND, SUBTRACT = range(4)


def cluster_with_topic(**config: Any) -> Cluster:
    cluster = Cluster(brokers=1, **config)
    cluster.create("t", (1,), configs={"retention.ms": "1000"})
    return cluster


def alter(
    cluster: Cluster, *configs: tuple[str, int, str | None], kind: int = TOPIC, name: str = "t"
) -> tuple[int, list[Any]]:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental_alter_configs.AlterableConfig(name=key, config_operation=op, value=value)
            for key, op, value in configs
        ],
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=False
    )
    decision = cluster.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
    (result,) = decision.response.responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    assert (result.error_message is None) == (result.error_code == 0)
    return result.error_code, list(decision.records)


def record(key: str, value: str | None, kind: int = TOPIC, name: str = "t") -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)


def test_a_config_is_set_and_deleted() -> None:
    cluster = cluster_with_topic()
    assert alter(cluster, ("retention.ms", SET, "5")) == (0, [record("retention.ms", "5")])
    assert alter(cluster, ("retention.ms", SET, "5")) == (0, [])
    assert alter(cluster, ("retention.ms", DELETE, None)) == (0, [record("retention.ms", None)])
    assert cluster.committed.config(TOPIC, "t") == {}


def test_list_values_are_appended_and_subtracted() -> None:
    cluster = cluster_with_topic()
    key = "cleanup.policy"
    assert alter(cluster, (key, APPEND, "compact,delete"))[1] == [record(key, "delete,compact")]
    assert alter(cluster, (key, SUBTRACT, "delete"))[1] == [record(key, "compact")]
    assert alter(cluster, ("retention.ms", APPEND, "1"))[0] == ErrorCode.INVALID_CONFIG


def test_setting_the_same_broker_config_writes_a_record() -> None:
    """Its value may name a file whose content has changed, such as a keystore."""
    cluster = cluster_with_topic()
    for name in ("1", ""):
        change = ("log.retention.ms", SET, "77")
        records = [record("log.retention.ms", "77", BROKER, name)]
        assert alter(cluster, change, kind=BROKER, name=name) == (0, records)
        assert alter(cluster, change, kind=BROKER, name=name) == (0, records)


@pytest.mark.parametrize(
    ("kind", "name", "config", "code"),
    [
        (TOPIC, "x", ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "t", ("nonsense", SET, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", SET, "much"), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("retention.ms", SET, "1" * 40_000), ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", ("min.compaction.lag.ms", SET, str(2**63 - 1)), 0),
        (TOPIC, "t", ("max.compaction.lag.ms", SET, "1"), 0),
        (TOPIC, "t", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ("log.retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        (BROKER, "9", ("log.retention.ms", SET, "1"), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (BROKER, "1", ("node.id", SET, "1"), ErrorCode.INVALID_CONFIG),
        (7, "t", ("retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_only_valid_configs_are_recorded(
    kind: int, name: str, config: tuple[str, int, str | None], code: int
) -> None:
    error_code, records = alter(cluster_with_topic(), config, kind=kind, name=name)
    assert error_code == code
    assert bool(records) == (code == 0)


def test_r2_deleting_throttles_of_the_metadata_topic_changes_nothing() -> None:
    """Kafka's tool deletes them after a reassignment. Q27: the topic has no configs."""
    throttles = [f"{role}.replication.throttled.replicas" for role in ("leader", "follower")]
    deleted = [(key, DELETE, None) for key in throttles]
    cluster = cluster_with_topic()
    assert alter(cluster, *deleted, name=METADATA_TOPIC) == (0, [])
    refused: tuple[int, list[Any]] = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert alter(cluster, *deleted, ("retention.ms", SET, "1"), name=METADATA_TOPIC) == refused
    assert alter(cluster, name=METADATA_TOPIC) == refused
    assert alter(cluster, *deleted, name="unknown") == refused


def test_configs_are_validated_together() -> None:
    cluster = cluster_with_topic()
    minimum = ("min.compaction.lag.ms", SET, "10")
    assert alter(cluster, minimum)[0] == 0
    assert alter(cluster, ("max.compaction.lag.ms", SET, "5"))[0] == ErrorCode.INVALID_CONFIG


def test_duplicate_keys_and_resources_are_refused() -> None:
    cluster = cluster_with_topic()
    twice = ("retention.ms", SET, "1")
    assert alter(cluster, twice, twice)[0] == ErrorCode.INVALID_REQUEST
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=TOPIC, resource_name="t", configs=()
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource, resource], validate_only=False
    )
    decision = cluster.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
    codes = [result.error_code for result in decision.response.responses]
    assert codes == [ErrorCode.INVALID_REQUEST] * 2


def test_validate_only_writes_nothing() -> None:
    decision = cluster_with_topic().configure(TOPIC, "t", {"retention.ms": "7"}, validate_only=True)
    assert (decision.records, decision.response.responses[0].error_code) == ([], 0)


def test_more_configs_than_a_batch_holds_are_refused() -> None:
    cluster = cluster_with_topic()
    many = [(f"plugin.{number}", SET, "1") for number in range(10_001)]
    assert alter(cluster, *many, kind=BROKER, name="1")[0] == ErrorCode.POLICY_VIOLATION


def test_alter_configs_deletes_configs_that_are_not_named() -> None:
    cluster = cluster_with_topic()
    resource = alter_configs.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="t",
        configs=[alter_configs.AlterableConfig(name="cleanup.policy", value="compact")],
    )
    request = alter_configs.AlterConfigsRequest(resources=[resource], validate_only=False)
    decision = cluster.ask(ApiKey.ALTER_CONFIGS, request)
    assert decision.records == [record("cleanup.policy", "compact"), record("retention.ms", None)]
    assert decision.response.responses[0].error_code == 0


def test_alter_configs_refuses_null_values() -> None:
    cluster = cluster_with_topic()
    null = alter_configs.AlterableConfig(name="cleanup.policy", value=None)
    resource = alter_configs.AlterConfigsResource(
        resource_type=TOPIC, resource_name="t", configs=[null]
    )
    request = alter_configs.AlterConfigsRequest(resources=[resource], validate_only=False)
    decision = cluster.ask(ApiKey.ALTER_CONFIGS, request)
    assert decision.response.responses[0].error_code == ErrorCode.INVALID_REQUEST


def test_elr_min_isr_is_cluster_wide_and_is_not_deleted() -> None:
    cluster = cluster_with_topic(elr=True)
    key = "min.insync.replicas"
    assert alter(cluster, (key, SET, "2"), kind=BROKER, name="1")[0] == ErrorCode.INVALID_CONFIG
    assert alter(cluster, (key, DELETE, None), kind=BROKER, name="")[0] == ErrorCode.INVALID_CONFIG
