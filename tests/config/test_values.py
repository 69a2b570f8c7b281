"""Parsing of values, and the errors of invalid ones."""

from __future__ import annotations

import pytest

from kraftlog.config.keys import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TABLES,
    TOPIC_KEYS,
    find_broker_key,
)
from kraftlog.config.values import default_of, expected, parse_value, to_text, value_error


@pytest.mark.parametrize("kind", TABLES)
def test_every_default_is_a_valid_value(kind: int) -> None:
    """Every default could also be set, except "" for a key that must not be empty."""
    for key in TABLES[kind]:
        if key.default is not None and not (key.default == "" and key.valid == "+"):
            value = parse_value(key, key.default)
            assert value == default_of(key)
            if key.type != "double":
                assert to_text(value) == key.default
        assert expected(key)


def test_the_tables_have_all_keys_of_kafka() -> None:
    tables = (BROKER_KEYS, TOPIC_KEYS, GROUP_KEYS, CLIENT_METRICS_KEYS)
    assert [len(list(table)) for table in tables] == [384, 39, 27, 3]
    assert BROKER_KEYS.find("no.such.key") is None


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("num.partitions", " 7 ", 7),
        ("auto.create.topics.enable", "FALSE", False),
        ("log.cleaner.min.cleanable.ratio", "1e-1", 0.1),
        ("log.cleanup.policy", " compact , delete,compact", ["compact", "delete"]),
        ("log.cleanup.policy", "", []),
        ("broker.rack", " r1 ", "r1"),
        ("sasl.jaas.config", " a ", " a "),
        ("compression.gzip.level", "-1", -1),
    ],
)
def test_values_are_parsed_by_type(name: str, text: str, value: object) -> None:
    key = BROKER_KEYS.find(name)
    assert key is not None
    assert parse_value(key, text) == value


@pytest.mark.parametrize(
    "message",
    [
        "num.partitions=0: expected a whole number from 1 to 2147483647",
        "default.replication.factor=x: expected a whole number from -2147483648 to 2147483647",
        "log.retention.bytes=x: expected a whole number",
        "log.retention.check.interval.ms=0: expected a whole number of at least 1",
        "compression.gzip.level=0: expected a whole number from 1 to 9, or -1",
        "log.cleaner.min.cleanable.ratio=1..5: expected a number from 0 to 1",
        "log.cleaner.io.buffer.load.factor=-: expected a number",
        "auto.create.topics.enable=yes: expected true or false",
        "compression.type=x: expected one of uncompressed, zstd, lz4, snappy, gzip, producer",
        "process.roles=: expected a list of broker, controller, not empty",
        "log.dirs=: expected a list, not empty",
        "metric.reporters=a,,b: expected a list",
        "remote.log.metadata.manager.impl.prefix=: expected a non-empty string",
        "controller.quorum.voters=a: expected a list of id@host:port",
        "controller.quorum.bootstrap.servers=a: expected a list of host:port",
    ],
)
def test_errors_name_key_value_and_what_is_accepted(message: str) -> None:
    name, _, rest = message.partition("=")
    key = BROKER_KEYS.find(name)
    assert key is not None
    assert value_error(key, rest.partition(":")[0]) == message


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("leader.replication.throttled.replicas", "0:1,1:2", "0:1,*"),
        ("follower.replication.throttled.replicas", "*", "0"),
        ("cleanup.policy", "compact", "shrink"),
    ],
)
def test_topic_list_values_are_validated(name: str, good: str, bad: str) -> None:
    key = TOPIC_KEYS.find(name)
    assert key is not None
    assert value_error(key, good) is None
    assert value_error(key, bad) == f"{name}={bad}: expected {expected(key)}"


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ("latest", True),
        ("by_duration:PT5S", True),
        ("by_duration:P1DT2H30M", True),
        ("by_duration:PT", False),
        ("by_duration:-PT5S", False),
        ("oldest", False),
    ],
)
def test_share_offset_reset_is_validated(text: str, is_valid: bool) -> None:
    key = GROUP_KEYS.find("share.auto.offset.reset")
    assert key is not None
    assert (value_error(key, text) is None) == is_valid


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [("", True), ("client_id=a.*,client_source_port=9", True), ("client_id", False),
     ("client_id=[", False), ("name=a", False)],
)  # fmt: skip
def test_client_match_patterns_are_validated(text: str, is_valid: bool) -> None:
    key = CLIENT_METRICS_KEYS.find("match")
    assert key is not None
    assert (value_error(key, text) is None) == is_valid


def test_sensitive_values_are_hidden() -> None:
    key = find_broker_key("listener.name.a.plain.sasl.jaas.config")
    assert key is not None
    assert key.sensitive
    assert key.name == "listener.name.a.plain.sasl.jaas.config"
    assert find_broker_key("listener.name.a.nope") is None
    assert value_error(key.replace(valid="+"), "") == (
        f"{key.name}=(hidden): expected a non-empty string"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (0.001, "0.001"), (1e-4, "1.0E-4"), (1.25e-5, "1.25E-5"), (1e7, "1.0E7")],
)
def test_doubles_are_formatted_as_java_does(value: float, text: str) -> None:
    assert to_text(value) == text
