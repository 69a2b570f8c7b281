"""What would only seem safe is refused: by name, with what would happen otherwise."""

from __future__ import annotations

import pytest

from kraftlog.config.reading import read_config
from kraftlog.config.safety import refuse_false_safety
from kraftlog.errors import ConfigError
from tests.config.starts import started_with

BROKER_ALONE = (
    "process.roles=broker ; node.id=2 ; listeners=PLAINTEXT://127.0.0.1:9092 ; "
    "controller.quorum.voters=1@127.0.0.1:9093 ; "
)
CLEAR = "only PLAINTEXT is spoken here, without passwords and in the clear"


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer: access "
            "is not controlled here: whoever can connect may do everything; leave the key out",
        ),
        (
            "create.topic.policy.class.name=org.example.Policy",
            "create.topic.policy.class.name=org.example.Policy: no policy is asked here: whoever "
            "can connect may create any topic; leave the key out",
        ),
        (
            "alter.config.policy.class.name=org.example.Policy",
            "alter.config.policy.class.name=org.example.Policy: no policy is asked here: whoever "
            "can connect may change any setting; leave the key out",
        ),
        (
            "listeners=SSL://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093 ; "
            "listener.security.protocol.map=SSL:SSL,CONTROLLER:PLAINTEXT ; "
            "inter.broker.listener.name=SSL",
            f"listeners: SSL wants SSL; {CLEAR}",
        ),
        (
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL",
            f"listeners: CONTROLLER wants SASL_SSL; {CLEAR}",
        ),
        (
            BROKER_ALONE
            + "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            f"controller.listener.names: CONTROLLER wants SASL_PLAINTEXT; {CLEAR}",
        ),
    ],
)
def test_false_safety_is_refused(case: str, expected: str) -> None:
    config, _ = read_config(started_with(case), {})
    with pytest.raises(ConfigError) as refused:
        refuse_false_safety(config)
    assert str(refused.value) == expected


@pytest.mark.parametrize(
    "case",
    [
        "authorizer.class.name=",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OTHER:SSL",
        "ssl.client.auth=required ; super.users=User:a",
        BROKER_ALONE,
    ],
)
def test_what_promises_nothing_is_fine(case: str) -> None:
    config, _ = read_config(started_with(case), {})
    refuse_false_safety(config)
