"""Effective configs of a topic, and refused ones."""

from __future__ import annotations

import pytest

from kraftlog.config import checks
from kraftlog.config.keys import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, TOPIC_KEYS
from kraftlog.config.layers import ConfigLayers
from kraftlog.config.setting import Setting
from kraftlog.config.topic import TopicConfig


def test_the_layer_with_the_highest_precedence_wins() -> None:
    file = {"log.segment.bytes": "2000000", "log.retention.hours": "1", "log.roll.hours": "2"}
    layers = ConfigLayers(file, {"log.roll.ms": "5"}, {"message.max.bytes": "7"})
    config = TopicConfig({"segment.bytes": "3000000"}, layers)
    assert config.segment_bytes == 3_000_000
    assert config.retention_ms == 3_600_000
    assert config.segment_ms == 5
    assert config.max_message_bytes == 7
    assert config["flush.ms"] == 2**63 - 1
    assert TopicConfig({}, layers).segment_bytes == 2_000_000


def test_the_internal_key_allows_tiny_segments() -> None:
    assert TopicConfig({"internal.segment.bytes": "50"}, ConfigLayers({})).segment_bytes == 50


def test_a_topic_whose_cleanup_policy_has_compact_is_compacted() -> None:
    assert TopicConfig({"cleanup.policy": "compact,delete"}, ConfigLayers({})).is_compacted
    assert TopicConfig({}, ConfigLayers({"log.cleanup.policy": "compact"})).is_compacted
    assert not TopicConfig({}, ConfigLayers({})).is_compacted


def test_every_attribute_is_a_key() -> None:
    settings = [it.key for it in vars(TopicConfig).values() if isinstance(it, Setting)]
    assert [key for key in settings if key not in TOPIC_KEYS.names()] == []
    config = TopicConfig({}, ConfigLayers({}))
    assert all(config[key] is not None for key in settings)
    with pytest.raises(KeyError):
        config["no.such.key"]


@pytest.mark.parametrize(
    ("kind", "key", "value", "error_text"),
    [
        (TOPIC, "retention.ms", "5", None),
        (TOPIC, "retention.ms", "x", "retention.ms=x: expected a whole number of at least -1"),
        (TOPIC, "retention", "5", "retention: unknown key of a topic"),
        (GROUP, "retention.ms", "5", "retention.ms: unknown key of a group"),
        (CLIENT_METRICS, "a", "5", "a: unknown key of a client metrics"),
        (BROKER, "num.io.threads", "5", None),
        (BROKER, "num.io.threads", "0",
         "num.io.threads=0: expected a whole number from 1 to 2147483647"),
        (BROKER, "node.id", "5",
         "node.id can't be changed while brokers run; set it in their files"),
        (BROKER, "leader.replication.throttled.rate", "5", None),
        (BROKER, "listener.name.a.ssl.keystore.location", "/a", None),
        (BROKER, "a.plug.in", "anything", None),
        (BROKER_LOGGER, "kafka", "INFO", "resources of type 8 have no configs"),
    ],
)  # fmt: skip
def test_each_value_is_checked_by_its_key(
    kind: int, key: str, value: str, error_text: str | None
) -> None:
    assert checks.config_error(kind, key, value) == error_text


@pytest.mark.parametrize(
    ("kind", "name", "values", "error_text"),
    [
        (TOPIC, "t", {"min.compaction.lag.ms": "5"}, ""),
        (TOPIC, "t", {"min.compaction.lag.ms": "50", "max.compaction.lag.ms": "5"},
         "min.compaction.lag.ms=50: expected at most max.compaction.lag.ms=5"),
        (TOPIC, "t", {"remote.storage.enable": "true"},
         "remote.storage.enable=true: this cluster has no remote storage"),
        (GROUP, "g", {"consumer.session.timeout.ms": "50000", "share.isolation.level": "x"}, ""),
        (GROUP, "g", {"consumer.session.timeout.ms": "5"},
         ("consumer.session.timeout.ms=5: expected at least "
          "group.consumer.min.session.timeout.ms=45000")),
        (GROUP, "g", {"streams.heartbeat.interval.ms": "20000"},
         ("streams.heartbeat.interval.ms=20000: expected at most "
          "group.streams.max.heartbeat.interval.ms=18000")),
        (BROKER, "1", {"listeners": "PLAINTEXT://:9092"}, ""),
        (BROKER, "", {"num.io.threads": "3", "a.plug.in": "x"}, ""),
        (BROKER, "", {"listeners": "PLAINTEXT://:9092"},
         "listeners: expected to be set for one broker, not for all"),
        (BROKER, "1", {"listener.name.a.ssl.keystore.location": "/a"}, ""),
        (BROKER, "", {"listener.name.a.ssl.keystore.location": "/a"},
         "listener.name.a.ssl.keystore.location: expected to be set for one broker, not for all"),
        (BROKER, "1", {"ssl.keystore.location": "/a"},
         ("ssl.keystore.location: expected to be set for a listener, as "
          "listener.name.<listener>.ssl.keystore.location")),
        (CLIENT_METRICS, "m", {"interval.ms": "500"}, ""),
    ],
)  # fmt: skip
def test_values_are_checked_together(
    kind: int, name: str, values: dict[str, str], error_text: str
) -> None:
    layers = ConfigLayers({"group.streams.max.heartbeat.interval.ms": "18000"})
    assert (checks.combination_error(kind, name, values, layers) or "") == error_text


def test_lists_defaults_and_names_of_keys_are_known() -> None:
    assert checks.is_list(TOPIC, "cleanup.policy")
    assert not checks.is_list(TOPIC, "retention.ms")
    assert not checks.is_list(TOPIC, "no.such.key")
    assert not checks.is_list(BROKER_LOGGER, "kafka")
    assert checks.default(TOPIC, "retention.ms") == "604800000"
    assert checks.default(TOPIC, "internal.segment.bytes") is None
    assert checks.default(TOPIC, "no.such.key") is None
    names = checks.keys(TOPIC)
    assert len(names) == 38
    assert sorted(names) == list(names)


def test_layers_give_the_effective_value() -> None:
    layers = ConfigLayers({"num.io.threads": "3"}, {"num.io.threads": "4"})
    assert layers.value("num.io.threads") == 4
    assert layers.value("num.network.threads") == 3
    assert layers.value("broker.rack") is None
    with pytest.raises(KeyError):
        layers.value("no.such.key")
