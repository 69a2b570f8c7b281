"""Kafka's own classes have the same keys, and accept the same values and files."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.config import checks
from kraftlog.config.keys import (
    BROKER,
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP,
    GROUP_KEYS,
    TOPIC,
    TOPIC_KEYS,
    Key,
)
from kraftlog.config.layers import ConfigLayers
from kraftlog.config.properties import parse
from kraftlog.config.read_config import read_config
from kraftlog.config.values import parse_value, to_text, value_error
from kraftlog.errors import ConfigError
from tests.config.starts import ACCEPTED, OWN_DEFAULTS, OWN_NAMES, REFUSED, properties_of_case

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.interop.driver import Driver

TABLES = {
    kind: [key for key in table if key.name not in OWN_NAMES]
    for kind, table in {
        "broker": BROKER_KEYS,
        "topic": TOPIC_KEYS,
        "group": GROUP_KEYS,
        "client-metrics": CLIENT_METRICS_KEYS,
    }.items()
}
#: `update_mode` of a broker key -> the update mode that Kafka documents.
KAFKAS_UPDATE_MODES = {
    "cluster": "cluster-wide",
    "dynamic": "cluster-wide",
    "broker": "per-broker",
    "listener": "per-broker",
}


def ask(jvm: Driver, questions: Iterable[list[Any]]) -> list[Any]:
    result = jvm.tool("ConfigOracle", stdin=json.dumps(list(questions)).encode()).ok()
    answers: list[Any] = json.loads(result.stdout)
    return answers


@pytest.fixture(scope="module")
def kafkas_keys(jvm: Driver) -> dict[str, dict[str, Any]]:
    [keys] = ask(jvm, [["keys"]])
    keys["broker"].update(keys.pop("quota"))
    return dict(keys)


@pytest.mark.parametrize("kind", TABLES)
def test_every_key_has_kafkas_type_default_and_documentation(
    kafkas_keys: dict[str, dict[str, Any]], kind: str
) -> None:
    ours = {
        key.name: {
            "type": key.type,
            "required": key.required,
            "default": key.default,
            "internal": key.internal,
            "change": KAFKAS_UPDATE_MODES.get(key.update_mode, "") if kind == "broker" else "",
            "synonyms": [[name, str(factor)] for name, factor in key.synonyms],
        }
        for key in TABLES[kind]
    }
    for facts in kafkas_keys[kind].values():
        if kind != "broker":
            facts["change"] = ""
    for name, (own, kafkas) in OWN_DEFAULTS.items() if kind == "broker" else ():
        assert (ours[name]["default"], kafkas_keys[kind][name]["default"]) == (own, kafkas)
        ours[name]["default"] = kafkas
    assert ours == kafkas_keys[kind]


#: Values that are valid for some keys and invalid for others.
NUMBERS = [str(n) for n in (*range(-3, 6), 9, 10, 11, 17, 18, 22, 23, 25, 26, 99, 100)]
NUMBERS += [str(n) for n in (500, 501, 3601, 86401, 524287, 524288, 1000000, 1048575, 1048576)]
NUMBERS += [str(n) for n in (8388607, 8388608, 3600001, 2**31 - 1, 2**31, 2**63 - 1, 2**63)]
NUMBERS += ["+5", "0x10", "1_000", "1.5", ".5", "0.5", "0.51", "1e3", "-0.1", "-", "+", "5-"]
WORDS = [
    "", " ", "true", "TRUE", "False", "yes", " 7 ", "a", "a,b", " a , b ", "a,,b",
    "gzip", "GZIP", " gzip", "gzip ", "brotli", "uncompressed", "producer", "CreateTime",
    "LogAppendTime", "compact", "delete", "compact,delete", "delete,compact", "compact,x",
    "broker", "controller", "broker,controller", "consumer,classic", "PLAINTEXT", "plaintext",
    "SASL_SSL", "required", "none", "bidirectional", "UPGRADE", "es256", "*", "0:1", "0:1,1:2",
    "0:1,1:x", "0:1,*", "latest", "earliest", "by_duration:PT5S", "by_duration:P1DT2H",
    "by_duration:5", "by_duration:PT", "by_duration:-PT5S", "by_duration:P1D", "read_committed",
    "1@a:9093", "1@a:9093,2@b:9093", "1@a", "a:9093", "a:x", "[::1]:9093",
    "client_id=a.*", "client_id", "client_id=[", "x=1",
]  # fmt: skip


def test_the_same_values_are_accepted(jvm: Driver) -> None:
    """The parsed values are equal, too. Classes, which Kafka loads, are not compared."""
    cases = [
        (kind, key, text)
        for kind, table in TABLES.items()
        for key in table
        if key.type != "class" and key.update_mode != "dynamic"
        for text in (*NUMBERS, *WORDS)
    ]
    answers = ask(jvm, [["value", kind, key.name, text] for kind, key, text in cases])
    wrong = [
        f"{kind} {key.name}={text!r}: ours {our_value(key, text)!r}, Kafka's {answer!r}"
        for (kind, key, text), answer in zip(cases, answers, strict=True)
        if not is_same(key, text, answer)
    ]
    assert not wrong, "\n".join(wrong[:50])


def our_value(key: Key, text: str) -> Any:
    try:
        return to_text(parse_value(key, text))
    except ConfigError as error:
        return {"error": str(error)}


def is_same(key: Key, text: str, answer: Any) -> bool:
    if isinstance(answer, dict):
        # Q33: only here a voter may be named by its id alone.
        is_own = key.name == "controller.quorum.voters" and text.strip().isdecimal()
        return (value_error(key, text) is None) == is_own
    if key.type == "double":
        return float(our_value(key, text)) == float(answer)
    return bool(our_value(key, text) == answer) or (
        key.sensitive and value_error(key, text) is None
    )


def test_the_same_files_start_a_broker(jvm: Driver) -> None:
    """Kafka refuses exactly REFUSED; `test_read_config` shows the same of kraftlog."""
    texts = {case: properties_of_case(case) for case in (*ACCEPTED, *REFUSED)}
    answers = ask(jvm, [["start", text] for text in texts.values()])
    assert {case for case, answer in zip(texts, answers, strict=True) if answer} == set(REFUSED)


#: Keys that differ by intention (docs/operate/configuration.md), or on which Kafka fails by
#: accident.
DIFFERENT_KEYS = {
    "controller.listener.names",
    "early.start.listeners",
    "log.cleaner.threads",
    "log.dir",
    "log.dirs",
    "max.connections.per.ip.overrides",
}


def test_random_files_start_a_broker_alike(jvm: Driver) -> None:
    """Each file sets one to three keys to values that are valid on their own."""
    rng = Random(1)
    texts = [text for text in (*NUMBERS, *WORDS) if text == text.strip()]
    valid = {
        key.name: [text for text in texts if value_error(key, text) is None]
        for key in TABLES["broker"]
        if key.type != "class" and key.update_mode != "dynamic" and key.name not in DIFFERENT_KEYS
    }
    cases = []
    for _ in range(1000):
        names = rng.sample(sorted(valid), rng.choice((1, 1, 2, 3)))
        cases.append(" ; ".join([f"{name}={rng.choice(valid[name])}" for name in names]))
    answers = ask(jvm, [["start", properties_of_case(case)] for case in cases])
    reasons = [refusal_reason(case) for case in cases]
    wrong = [
        (case, reason, answer)
        for case, reason, answer in zip(cases, reasons, answers, strict=True)
        if (reason is None) != (answer is None)
    ]
    assert wrong == []


def refusal_reason(case: str) -> str | None:
    try:
        read_config(properties_of_case(case), {})
    except ConfigError as error:
        return str(error)
    return None


TOPICS: list[dict[str, str]] = [
    {},
    {"cleanup.policy": "compact,compact"},
    {"cleanup.policy": ""},
    {"retention.ms": "-1", "retention.bytes": "-5"},
    {"retention.ms": "-2"},
    {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"},
    {"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"},
    {"min.compaction.lag.ms": "101"},
    {"max.compaction.lag.ms": "9"},
    {"remote.storage.enable": "true"},
    {"remote.storage.enable": "false"},
    {"internal.segment.bytes": "50"},
    {"segment.bytes": "50"},
    {"no.such.key": "1"},
    {"local.retention.ms": "10", "retention.ms": "5"},
    {"follower.replication.throttled.replicas": "*"},
]


def test_the_same_topic_configs_are_accepted(jvm: Driver) -> None:
    file = properties_of_case(
        "log.cleaner.min.compaction.lag.ms=10 ; log.cleaner.max.compaction.lag.ms=100"
    )
    layers = ConfigLayers(parse(file))
    answers = ask(jvm, [["topic", values, file] for values in TOPICS])
    for values, answer in zip(TOPICS, answers, strict=True):
        assert (refusal(TOPIC, "t", values, layers) is None) == (answer is None), values


def test_the_same_group_configs_are_accepted(jvm: Driver) -> None:
    """Each key alone, with numbers around its limits."""
    file = properties_of_case("group.consumer.max.heartbeat.interval.ms=20000")
    layers = ConfigLayers(parse(file))
    cases = [
        {key.name: text}
        for key in GROUP_KEYS
        for text in ("1", "10", "4000", "5000", "15000", "16000", "20001", "45000", "60001", "x")
    ]
    answers = ask(jvm, [["group", values, file] for values in cases])
    wrong = [
        (values, answer)
        for values, answer in zip(cases, answers, strict=True)
        if (refusal(GROUP, "g", values, layers) is None) != (answer is None)
    ]
    assert wrong == []


@pytest.mark.parametrize("name", ["1", ""])
def test_the_same_dynamic_broker_configs_are_accepted(jvm: Driver, name: str) -> None:
    """Each key is set for one broker or for all, by its plain name and for one listener."""
    cases = []
    for key in TABLES["broker"]:
        if key.type != "class" and not key.required:
            usual = {"int": "1", "long": "1"}.get(key.type, "x")
            text = usual if key.default is None else key.default
            cases.append({key.name: text})
            cases.append({f"listener.name.a.{key.name}": text})
    answers = ask(jvm, [["dynamic", values, name == "1"] for values in cases])
    wrong = [
        (values, answer)
        for values, answer in zip(cases, answers, strict=True)
        if (refusal(BROKER, name, values, ConfigLayers({})) is None) != (answer is None)
    ]
    assert wrong == []


def refusal(kind: int, name: str, values: dict[str, str], layers: ConfigLayers) -> str | None:
    one_by_one = [checks.config_error(kind, key, value) for key, value in values.items()]
    wrong = next(filter(None, one_by_one), None)
    return wrong or checks.combination_error(kind, name, values, layers)


FILES = [
    "a=1\nb = 2\nc:3\nd 4\ne\tf\n",
    "# no\n! no\n  # no\n\n \t\n a = b c \n",
    "a=1\\\n  2\\\n\\\n3\nb=\\\\\nc=x\\",
    "a\\ b\\=c=d\\:e\nk\\u0041=\\u00e9\\t\\q\n",
    "a=1\r\nb=2\rc=3\\\r\n 4",
    "=x\na==b\nb:=c\nc=:d\ne= \nf",
    "a=1\na=2\n#a=3\\\na=4",
]


def test_properties_files_are_parsed_as_by_java(jvm: Driver) -> None:
    answers = ask(jvm, [["properties", text] for text in FILES])
    assert [parse(text) for text in FILES] == answers
