"""`server.properties` is parsed into a configuration, or refused with a reason."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kraftlog.config.broker import BrokerConfig
from kraftlog.config.effective import EFFECTIVE
from kraftlog.config.endpoints import Listener, QuorumVoter
from kraftlog.config.keys import BROKER_KEYS, TABLES, find_broker_key
from kraftlog.config.properties import parse, parse_overrides
from kraftlog.config.read_config import REMOVED, read_config
from kraftlog.config.setting import Setting
from kraftlog.errors import ConfigError
from tests.config.starts import ACCEPTED, PLAIN, REFUSED, properties_of_case


def refusal(text: str, **overrides: str) -> str:
    with pytest.raises(ConfigError) as refused:
        read_config(text, overrides)
    return str(refused.value)


@pytest.mark.parametrize("case", ACCEPTED)
def test_files_that_start_kafka_are_accepted(case: str) -> None:
    config, _ = read_config(properties_of_case(case), {})
    assert config.node_id in {1, 2}


@pytest.mark.parametrize("case", REFUSED)
def test_files_that_kafka_refuses_are_refused(case: str) -> None:
    """The error is one line that names a key."""
    message = refusal(properties_of_case(case))
    assert "\n" not in message
    assert any(name in message for name in BROKER_KEYS.names())


def test_an_invalid_port_is_refused_before_listening() -> None:
    message = refusal(properties_of_case("listeners=PLAINTEXT://:99999,CONTROLLER://:9093"))
    assert (
        message
        == "listeners: PLAINTEXT://:99999 is not of the form NAME://host:port, port up to 65535"
    )


def test_units_directories_and_overrides_take_effect() -> None:
    config, warnings = read_config(properties_of_case(
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://[::1]:9093 ; log.dirs=/a ; "
        "metadata.log.dir=/b ; log.retention.minutes=5 ; log.retention.hours=1 ; "
        "log.roll.hours=2 ; log.roll.jitter.ms=3 ; log.flush.scheduler.interval.ms=4 ; "
        "broker.rack=r"
    ), {"num.partitions": "3"})  # fmt: skip
    assert config.is_broker
    assert config.is_controller
    assert config.num_partitions == 3
    assert config.voters == [QuorumVoter(1, "localhost", 9093)]
    assert config.bootstrap_servers == [("localhost", 9093)]
    plain = Listener("PLAINTEXT", "127.0.0.1", 9092)
    assert config.broker_listeners == config.advertised_listeners == [plain]
    [controller] = config.controller_listeners
    assert str(controller) == "CONTROLLER://[::1]:9093"
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.metadata_directory == "/b"
    assert config.directories == ["/a", "/b"]
    assert config.log_retention_ms == 300_000
    assert config.log_roll_ms == 7_200_000
    assert config.log_roll_jitter_ms == 3
    without_effect = "log.flush.scheduler.interval.ms, log.roll.jitter.ms"
    assert warnings == [f"accepted, no effect: {without_effect}"]


def test_the_smallest_unit_wins() -> None:
    def retention(**given: str) -> int:
        return BrokerConfig({k.replace("_", "."): v for k, v in given.items()}).log_retention_ms

    assert retention() == 7 * 24 * 3_600_000
    assert retention(log_retention_hours="2") == 7_200_000
    assert retention(log_retention_hours="2", log_retention_minutes="1") == 60_000
    assert retention(log_retention_hours="2", log_retention_ms="5") == 5
    assert retention(log_retention_minutes="-5") == -1


def test_unknown_removed_and_unused_keys_cause_warnings() -> None:
    text = properties_of_case(
        "num.partition=3 ; zookeeper.connect=a ; log.message.format.version=1 ; qwertz=1 ; "
        "config.providers.file.class=x ; listener.name.plaintext.max.connections=5 ; "
        "super.users=User:a ; kraftlog.http.prot=1"
    )
    assert read_config(text, {})[1] == [
        "num.partition: unknown key; did you mean num.partitions?",
        "zookeeper.connect: Kafka 4 has no ZooKeeper and dropped this key",
        "log.message.format.version: Kafka 4 dropped this key",
        "qwertz: unknown key",
        "kraftlog.http.prot: unknown key; did you mean kraftlog.http.port?",
        "accepted, no effect: listener.name.plaintext.max.connections, super.users",
    ]


def test_effective_keys_exist_and_removed_keys_do_not() -> None:
    assert all(TABLES[kind].find(name) for kind, names in EFFECTIVE.items() for name in names)
    known = BROKER_KEYS.names()
    assert not [n for n in REMOVED if n in known or any(k.startswith(n) for k in known)]


def test_every_attribute_is_a_key() -> None:
    settings = [it.key for it in vars(BrokerConfig).values() if isinstance(it, Setting)]
    assert len(settings) > 30
    assert [key for key in settings if find_broker_key(key) is None] == []
    config = BrokerConfig(PLAIN)
    unset = [key for key in settings if config[key] is None]
    assert unset == ["broker.rack", "replica.selector.class"]
    with pytest.raises(KeyError):
        config["no.such.key"]


def test_values_of_files_and_overrides_are_validated() -> None:
    assert refusal(properties_of_case("log.dirs=/a"), **{"num.io.threads": "0"}) == (
        "num.io.threads=0: expected a whole number from 1 to 2147483647"
    )
    override = {"listener.name.a.max.connections": "x"}
    assert refusal(properties_of_case("log.dirs=/a"), **override).startswith(
        "listener.name.a.max.connections=x: expected a whole number"
    )
    assert find_broker_key("listener.name.a.max.connections") is not None


def test_overrides_are_parsed() -> None:
    assert parse_overrides(["a=b", " c = d=e ", "f="]) == {"a": "b", "c": "d=e", "f": ""}
    for word in ("a", "=b"):
        with pytest.raises(ConfigError, match="expected key=value"):
            parse_overrides([word])


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=1\nb = 2\nc:3\nd 4\n", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# no\n! no\n\n  a=b c \n", {"a": "b c "}),
        ("a=1\\\n  2\\\n\\\n3", {"a": "123"}),
        ("a=1\\", {"a": "1"}),
        ("a\\ b\\=c=d\\:e\nk\\u0041=\\t\\q", {"a b=c": "d:e", "kA": "\tq"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("", {}),
    ],
)
def test_the_properties_format_is_parsed(text: str, pairs: dict[str, str]) -> None:
    assert parse(text) == pairs


def test_an_invalid_escape_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected four hexadecimal digits"):
        parse("a=\\u12")


def test_reading_a_file_imports_little() -> None:
    """A start imports the tables of broker keys, but not those of resources or slow modules."""
    text = properties_of_case("log.dirs=/a")
    reading = f"from kraftlog.config.read_config import read_config; read_config({text!r}, {{}})"
    imported = modules_after(reading) - modules_after("pass")
    assert "kraftlog.config.broker_keys" in imported
    slow = {"re", "difflib", "typing", "dataclasses", "enum", "logging", "json"}
    assert not imported & {*slow, "kraftlog.config.resource_keys"}


def modules_after(program: str) -> set[str]:
    command = [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"]
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return set(output.split())


def test_q33_voters_may_be_ids_alone_where_discovery_gives_addresses() -> None:
    """A sole voter needs no address; of several, each must be found through another node."""
    lone, _ = read_config(properties_of_case("controller.quorum.voters=1"), {})
    assert (lone.voters, lone.bootstrap_servers) == ([QuorumVoter(1, "", 0)], [])
    servers = "controller.quorum.bootstrap.servers=b:9093"
    case = f"-controller.quorum.voters ; quorum.voters=1, 2, 3@c:9093 ; {servers}"
    config, _ = read_config(properties_of_case(case), {})
    assert config.voters == [
        QuorumVoter(1, "", 0),
        QuorumVoter(2, "", 0),
        QuorumVoter(3, "c", 9093),
    ]
    assert config.bootstrap_servers == [("b", 9093)]
    without = case.replace(f" ; {servers}", "")
    config, _ = read_config(properties_of_case(without), {})
    assert config.bootstrap_servers == [("c", 9093)]
    unknown = without.replace("3@c:9093", "3")
    message = "controller.quorum.voters: no address is known for 2, 3; write id@host:port, or set "
    assert refusal(properties_of_case(unknown)).startswith(message)
    assert "no address is known for 2;" in refusal(
        properties_of_case("controller.quorum.voters=1@localhost:9093,2")
    )
