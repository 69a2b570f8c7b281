"""Unsupported protection is refused, with the key and the consequence."""

from __future__ import annotations

import pytest

from kraftlog.config.read_config import read_config
from kraftlog.config.safety import refuse_unsupported_security
from kraftlog.errors import ConfigError
from tests.config.starts import started_with

BROKER_ALONE = (
    "process.roles=broker ; node.id=2 ; listeners=PLAINTEXT://127.0.0.1:9092 ; "
    "controller.quorum.voters=1@127.0.0.1:9093 ; "
)


EVERY = "every client may"


@pytest.mark.parametrize(
    ("key", "without"),
    [
        ("authorizer.class.name", f"there is no access control: {EVERY} do everything"),
        ("create.topic.policy.class.name", f"policies are not supported: {EVERY} create any topic"),
        (
            "alter.config.policy.class.name",
            f"policies are not supported: {EVERY} change any config",
        ),
    ],
)
def test_unsupported_access_control_is_refused(key: str, without: str) -> None:
    expected = f"{key}=org.example.Guard: {without}; remove the key"
    assert refusal(f"{key}=org.example.Guard") == expected


SSL_FOR_CLIENTS = "listeners=SSL://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093 ; "
MAP = "listener.security.protocol.map"


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            f"{SSL_FOR_CLIENTS}{MAP}=SSL:SSL,CONTROLLER:PLAINTEXT ; inter.broker.listener.name=SSL",
            "listeners: SSL uses SSL",
        ),
        (f"{MAP}=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL", "listeners: CONTROLLER uses SASL_SSL"),
        (
            f"{BROKER_ALONE}{MAP}=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "controller.listener.names: CONTROLLER uses SASL_PLAINTEXT",
        ),
    ],
)
def test_encrypted_listeners_are_refused(case: str, message: str) -> None:
    clear = "only PLAINTEXT is supported, without authentication or encryption"
    assert refusal(case) == f"{message}; {clear}"


def refusal(case: str) -> str:
    config, _ = read_config(started_with(case), {})
    with pytest.raises(ConfigError) as refused:
        refuse_unsupported_security(config)
    return str(refused.value)


@pytest.mark.parametrize(
    "case",
    [
        "authorizer.class.name=",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OTHER:SSL",
        "ssl.client.auth=required ; super.users=User:a",
        BROKER_ALONE,
    ],
)
def test_settings_that_promise_no_protection_are_accepted(case: str) -> None:
    config, _ = read_config(started_with(case), {})
    refuse_unsupported_security(config)
