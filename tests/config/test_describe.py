"""Compares DescribeConfigs with the responses of a Kafka 4.3.1 broker (see `record`).

A row in `described.json` is name, value, read only, source, sensitive, synonyms, type.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.config.broker import BrokerConfig
from kraftlog.config.describe import (
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from kraftlog.config.layers import DEFAULT_CONFIG, STATIC_BROKER_CONFIG, ConfigLayers
from tests.config.starts import OWN_DEFAULTS, OWN_NAMES

if TYPE_CHECKING:
    from kraftlog.config.describe import DescribedConfig

with open(os.path.join(os.path.dirname(__file__), "described.json"), encoding="utf-8") as file:
    RECORDED = json.load(file)
GIVEN = RECORDED["given"]
LAYERS = ConfigLayers(BrokerConfig(GIVEN["file"]).texts, GIVEN["all brokers"], GIVEN["broker"])


def row(it: DescribedConfig) -> list[Any]:
    synonyms = [[s.name, s.value, s.source] for s in it.synonyms]
    flags = [it.read_only, it.config_source, it.is_sensitive]
    return [it.name, it.value, *flags, synonyms, it.config_type]


def our_descriptions(kind: str) -> list[DescribedConfig]:
    if kind == "topic":
        return describe_topic(GIVEN["topic"], LAYERS)
    if kind == "group":
        return describe_group(GIVEN["group"], LAYERS)
    if kind == "client metrics":
        return describe_client_metrics(GIVEN["client metrics"])
    if kind == "broker":
        return describe_broker(LAYERS)
    return describe_all_brokers(GIVEN["all brokers"])


#: Of this key, Kafka shows the default as the value, and the 100 of the file as a synonym.
DIFFERENT_KEYS = {"log.retention.hours"}


@pytest.mark.parametrize("kind", RECORDED["responses"])
def test_descriptions_equal_kafkas(kind: str) -> None:
    ours = {it.name: row(it) for it in our_descriptions(kind) if it.name not in DIFFERENT_KEYS}
    theirs = {it[0]: it for it in RECORDED["responses"][kind] if it[0] not in DIFFERENT_KEYS}
    own = [ours.pop(name) for name in OWN_NAMES & set(ours)]
    assert len(own) == {"topic": 1, "broker": 2}.get(kind, 0)
    assert sorted(ours) == sorted(theirs)
    for name in OWN_DEFAULTS if kind == "broker" else ():
        theirs[name] = with_own_default(theirs[name])
    wrong = [(ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]]
    assert wrong == []


def with_own_default(theirs: list[Any]) -> list[Any]:
    """Kafka's row of a key with kraftlog's default in place of Kafka's."""
    name, value, read_only, source, sensitive, synonyms, config_type = theirs
    own, kafkas = OWN_DEFAULTS[name]
    assert synonyms[-1] == [name, kafkas, DEFAULT_CONFIG]
    synonyms = [*synonyms[:-1], [name, own, DEFAULT_CONFIG]]
    value = own if source == DEFAULT_CONFIG else value
    return [name, value, read_only, source, sensitive, synonyms, config_type]


def test_a_value_in_a_larger_unit_has_the_file_as_its_source() -> None:
    """An intended difference: Kafka reports the value of the file as a default."""
    [hours] = describe_broker(LAYERS, ["log.retention.hours"])
    assert (hours.value, hours.config_source) == ("100", STATIC_BROKER_CONFIG)
    [retention] = describe_topic({}, ConfigLayers({"log.retention.hours": "100"}), ["retention.ms"])
    assert (retention.value, retention.config_source) == ("360000000", STATIC_BROKER_CONFIG)
    assert [s.name for s in retention.synonyms] == ["log.retention.hours"] * 2
    [usual] = describe_topic({}, ConfigLayers({}), ["retention.ms"])
    assert (usual.value, usual.config_source, usual.synonyms) == ("604800000", DEFAULT_CONFIG, [])
    [for_ever] = describe_topic({}, ConfigLayers({"log.retention.hours": "-3"}), ["retention.ms"])
    assert for_ever.value == "-1"


@pytest.mark.parametrize("kind", RECORDED["responses"])
def test_every_known_key_is_documented(kind: str) -> None:
    for it in our_descriptions(kind):
        assert it.documentation if it.config_type else it.documentation is None
    [voters] = describe_broker(LAYERS, ["controller.quorum.voters"])
    assert voters.documentation is not None
    assert voters.documentation.startswith("Voters of a static quorum, as id@host:port")


def test_keys_of_kraftlog_alone_are_documented() -> None:
    [port] = describe_broker(ConfigLayers({"kraftlog.http.port": "0"}), ["kraftlog.http.port"])
    assert port.documentation is not None
    assert port.documentation.startswith("Port of metrics and health")


def test_only_requested_keys_are_described() -> None:
    names = ["flush.ms", "no.such.key", "retention.ms", "interval.ms", "node.id"]
    assert [it.name for it in describe_topic({}, LAYERS, names)] == ["flush.ms", "retention.ms"]
    assert [it.name for it in describe_broker(LAYERS, names)] == ["node.id"]
    assert [it.name for it in describe_client_metrics({}, names)] == ["interval.ms"]
    assert describe_group({}, LAYERS, names) == []
    assert describe_all_brokers({"num.io.threads": "3"}, names) == []


def test_a_listener_override_precedes_the_common_key() -> None:
    name = "listener.name.plaintext.ssl.keystore.location"
    [entry] = describe_broker(ConfigLayers({name: "/a", "ssl.keystore.location": "/b"}), [name])
    assert [(s.name, s.value) for s in entry.synonyms] == [
        (name, "/a"),
        ("ssl.keystore.location", "/b"),
    ]
    assert entry.value == "/a"
