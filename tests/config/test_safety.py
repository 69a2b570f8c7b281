"""Unsupported security and a short fetch timeout are refused, with the key and the reason."""

from __future__ import annotations

import pytest

from kraftlog.config.read_config import read_config
from kraftlog.config.safety import refuse_unsafe, refuse_unsupported_security
from kraftlog.errors import ConfigError
from kraftlog.server.start import raft_config
from tests.config.starts import properties_of_case

BROKER_ALONE = (
    "process.roles=broker ; node.id=2 ; listeners=PLAINTEXT://127.0.0.1:9092 ; "
    "controller.quorum.voters=1@127.0.0.1:9093 ; "
)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("authorizer.class.name", "there is no access control: every client may do everything"),
        (
            "create.topic.policy.class.name",
            "policies are not supported: every client may create any topic",
        ),
        (
            "alter.config.policy.class.name",
            "policies are not supported: every client may change any config",
        ),
    ],
)
def test_unsupported_access_control_is_refused(key: str, reason: str) -> None:
    expected = f"{key}=org.example.Guard: {reason}; remove the key"
    assert refusal(f"{key}=org.example.Guard") == expected


MAP = "listener.security.protocol.map"


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (f"{MAP}=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL", "listeners: CONTROLLER uses SASL_SSL"),
        (
            f"{BROKER_ALONE}{MAP}=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "controller.listener.names: CONTROLLER uses SASL_PLAINTEXT",
        ),
    ],
)
def test_listeners_with_sasl_are_refused(case: str, message: str) -> None:
    reason = "only PLAINTEXT and SSL are supported, without passwords"
    assert refusal(case) == f"{message}; {reason}"


def refusal(case: str) -> str:
    config, _ = read_config(properties_of_case(case), {})
    with pytest.raises(ConfigError) as refused:
        refuse_unsupported_security(config)
    return str(refused.value)


@pytest.mark.parametrize(
    "case",
    [
        "authorizer.class.name=",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OTHER:SSL",
        "ssl.client.auth=required ; super.users=User:a",
        f"{MAP}=PLAINTEXT:SSL,CONTROLLER:SSL ; inter.broker.listener.name=PLAINTEXT",
        BROKER_ALONE,
    ],
)
def test_settings_that_promise_no_protection_are_accepted(case: str) -> None:
    config, _ = read_config(properties_of_case(case), {})
    refuse_unsupported_security(config)


@pytest.mark.parametrize("value", ["0", "100", "749"])
def test_a_fetch_timeout_below_the_wait_of_a_fetch_is_refused(value: str) -> None:
    """With a shorter timeout, voters of an idle quorum would hold elections endlessly."""
    key = "controller.quorum.fetch.timeout.ms"
    config, _ = read_config(properties_of_case(f"{key}={value}"), {})
    with pytest.raises(ConfigError) as refused:
        refuse_unsafe(config)
    message = str(refused.value)
    assert message.startswith(f"{key}={value}: expected at least 750. A leader without new records")
    assert "responds to a fetch after 500 ms" in message
    assert "Remove the key for the default, 2000" in message


def test_the_smallest_fetch_timeout_exceeds_the_wait_of_a_fetch() -> None:
    config, _ = read_config(properties_of_case("controller.quorum.fetch.timeout.ms=750"), {})
    refuse_unsafe(config)
    raft = raft_config(config, 0)
    assert raft.fetch_timeout_ms == raft.fetch_max_wait_ms * 3 // 2 == 750
