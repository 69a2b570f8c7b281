"""Properties of TLS and SASL: what is refused before a connection, and what is kept secret."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from kraftlog import Admin, Client
from kraftlog.client.security import TLS_KEYS, security_of
from kraftlog.config.effective import TLS
from kraftlog.errors import ConfigError
from kraftlog.sasl.jaas import parse_jaas

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="al" password="secret-1";'
)
SCRAM = PLAIN.replace("plain.PlainLoginModule", "scram.ScramLoginModule")


@pytest.mark.parametrize(
    "properties", [{}, {"security.protocol": "PLAINTEXT"}, {"security.protocol": ""}]
)
def test_plaintext_needs_no_security(properties: dict[str, str]) -> None:
    assert security_of({**properties, "sasl.jaas.config": "nonsense"}) is None


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS: expected one of PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism=GSSAPI .* needs Kerberos"),
        (
            {"security.protocol": "sasl_ssl", "sasl.mechanism": "DIGEST"},
            "expected one of PLAIN, SCRAM",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "sasl.jaas.config must be set",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": SCRAM},
            "ScramLoginModule is not the login module of PLAIN",
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": PLAIN.replace("password=", "pass="),
            },
            "PlainLoginModule needs the option password",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "{jks}"},
            "ssl.truststore.location=.*: Java's key stores .JKS. can't be read: convert it",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.type": "BCFKS"},
            "ssl.keystore.type=BCFKS: expected PEM or PKCS12",
        ),
        (
            {"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1"},
            "expected TLSv1.2, TLSv1.3 or both",
        ),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldap"},
            "expected https, or nothing",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(
    properties: dict[str, str], message: str, tmp_path: Path
) -> None:
    jks = tmp_path / "t.jks"
    jks.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    properties = {key: value.replace("{jks}", str(jks)) for key, value in properties.items()}
    with pytest.raises(ConfigError, match=f"^{message}|{message}") as error:
        security_of(properties)
    assert "secret-1" not in str(error.value)
    with pytest.raises(ConfigError, match=r"^option kafka\."):
        security_of(properties, prefix="option kafka.")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('M required a="1" b="2";', {"a": "1", "b": "2"}),
        ("M required a='1' b=2 ;", {"a": "1", "b": "2"}),
        (r'com.example.M REQUIRED a="q\"=;\\";', {"a": 'q"=;\\'}),
        ("M optional;", {}),
    ],
)
def test_jaas_options(text: str, options: dict[str, str]) -> None:
    assert parse_jaas(text) == ("M", options)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "M",
        "M required",
        'M required a="secret-1"',
        'M required a "secret-1";',
        "M needed;",
        'M required a="secret-1;',
    ],
)
def test_malformed_jaas_is_refused_without_a_quotation(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^sasl\.jaas\.config: ") as error:
        parse_jaas(text)
    assert "secret-1" not in str(error.value)


def test_security_shows_no_password_and_reaches_other_processes() -> None:
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": SCRAM,
        "client.id": "other",
    }
    security = security_of(properties)
    assert repr(security) == "<Security SASL_PLAINTEXT SCRAM-SHA-512>"
    copy = pickle.loads(pickle.dumps(security))
    assert copy == security
    assert hash(copy) == hash(security)
    assert security != security_of({**properties, "sasl.jaas.config": SCRAM.replace("al", "bo")})


@pytest.mark.parametrize("kind", [Client, Admin])
def test_clients_take_the_properties(kind: type[Client] | type[Admin]) -> None:
    with pytest.raises(ConfigError, match="Kerberos"):
        kind("127.0.0.1:1", security={"security.protocol": "SASL_SSL"})


def test_clients_have_all_keys_of_tls_but_those_of_listeners() -> None:
    of_listeners = {"ssl.client.auth", "ssl.engine.factory.class", "ssl.principal.mapping.rules"}
    assert set(TLS_KEYS) == set(TLS) - of_listeners
