"""Unsupported security and a short fetch timeout are refused, with the key and the reason."""

from __future__ import annotations

import pytest

from kraftlog.config.authorizer import authorizer_config
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


AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
EVERYONE = "allow.everyone.if.no.acl.found"


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            "authorizer.class.name=org.example.Guard",
            "authorizer.class.name=org.example.Guard: expected org.apache.kafka.metadata.",
        ),
        (
            f"{AUTHORIZER} ; super.users=User:a;b",
            "super.users=User:a;b: expected principals like User:alice",
        ),
    ],
)
def test_an_authorizer_that_cannot_protect_is_refused(case: str, message: str) -> None:
    assert refusal(case).startswith(message)


@pytest.mark.parametrize(
    ("case", "super_users", "allows_everyone"),
    [
        (AUTHORIZER, set(), False),
        (
            f"{AUTHORIZER} ; super.users= User:a;User:CN=b,O=c ;; ; {EVERYONE}= TRUE ",
            {"User:a", "User:CN=b,O=c"},
            True,
        ),
        (f"{AUTHORIZER} ; {EVERYONE}=yes", set(), False),
    ],
)
def test_settings_of_the_authorizer(
    case: str, super_users: set[str], *, allows_everyone: bool
) -> None:
    config, warnings = read_config(properties_of_case(case), {})
    found = authorizer_config(config)
    assert found is not None
    assert found.super_users == super_users
    assert found.allow_everyone_without_acl is allows_everyone
    assert not warnings


MAP = "listener.security.protocol.map"


def test_controllers_without_a_security_protocol_are_refused() -> None:
    """A broker must not take metadata without TLS, because the map lacks the controllers."""
    refused = refusal(f"{BROKER_ALONE}{MAP}=PLAINTEXT:PLAINTEXT,CONTROLER:SASL_SSL")
    assert refused.startswith("controller.listener.names: CONTROLLER has no security protocol")


#: A listener with SASL for clients, and the JAAS key of its users.
SASL = (
    "listeners=PLAINTEXT://127.0.0.1:9092,IN://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093 ; "
    f"{MAP}=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,IN:SASL_PLAINTEXT ; "
)
JAAS = "listener.name.in.plain.sasl.jaas.config"
LOGIN = (
    "sasl.mechanism.controller.protocol=PLAIN ; "
    "listener.name.controller.plain.sasl.jaas.config=a.PlainLoginModule required"
)
SASL_CONTROLLERS = f"{BROKER_ALONE}{MAP}=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT ; "


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (SASL, "sasl.enabled.mechanisms: GSSAPI (Kafka's default) needs Kerberos"),
        (f"{SASL}sasl.enabled.mechanisms=OAUTHBEARER", "accepts tokens that nobody has signed"),
        (f"{SASL}sasl.enabled.mechanisms=", "sasl.enabled.mechanisms: expected one of PLAIN, "),
        (f"{SASL}sasl.enabled.mechanisms=X-2", "there is no mechanism X-2"),
        (f"{SASL}sasl.enabled.mechanisms=PLAIN", f"{JAAS} must be set"),
        (
            f"{SASL}listener.name.in.sasl.enabled.mechanisms=GSSAPI",
            "listener.name.in.sasl.enabled.mechanisms: GSSAPI",
        ),
        (
            f"{SASL}sasl.enabled.mechanisms=PLAIN ; {JAAS}=a.ScramLoginModule required x=secret;",
            f"{JAAS}: ScramLoginModule is not the login module of PLAIN: PlainLoginModule",
        ),
        (
            f"{SASL}sasl.enabled.mechanisms=PLAIN ; {JAAS}=a.PlainLoginModule x=secret",
            f"{JAAS}: expected CLASS required",
        ),
        (
            f"{SASL_CONTROLLERS}sasl.mechanism.controller.protocol=SCRAM-SHA-256",
            "sasl.mechanism.controller.protocol=SCRAM-SHA-256: expected PLAIN; the credentials of",
        ),
        (
            f"{SASL_CONTROLLERS}{LOGIN} username=secret;",
            "needs the option password",
        ),
        (
            f'{SASL_CONTROLLERS}{LOGIN} username=a password=secret tokenauth="true";',
            "nodes cannot log in by a delegation token, only clients",
        ),
    ],
)
def test_sasl_that_cannot_be_served_is_refused(case: str, message: str) -> None:
    """The refusal names the key, and never a secret."""
    refused = refusal(case)
    assert message in refused
    assert "secret" not in refused


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
        f"{SASL}sasl.enabled.mechanisms=SCRAM-SHA-256",
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


def test_keys_of_listeners_that_do_not_exist_are_named() -> None:
    """In keys their names are in lower case; others would have no effect, silently."""
    wrong = ["listener.name.IN.ssl.client.auth", "listener.name.inn.ssl.client.auth"]
    keys = " ; ".join([f"{key}=required" for key in (*wrong, "listener.name.in.ssl.client.auth")])
    _, warnings = read_config(properties_of_case(f"{SASL}{keys}"), {})
    named = [line.partition(":")[0] for line in warnings if "no listener has this name" in line]
    assert named == wrong
