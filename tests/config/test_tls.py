"""Settings of TLS: those of one listener, what is refused, and rules for principals."""

from __future__ import annotations

import pytest

from kraftlog.config.layers import ConfigLayers
from kraftlog.config.principals import principal_mapper
from kraftlog.config.read_config import warnings
from kraftlog.config.tls import check_tls, client_settings, openssl_suite, tls_settings
from kraftlog.errors import ConfigError

SECRETS = {
    "ssl.key.password": "secret-1",
    "ssl.keystore.password": "secret-2",
    "ssl.keystore.key": "secret-3",
}


def test_a_listeners_own_settings_come_first_whatever_sets_them() -> None:
    layers = ConfigLayers(
        {"listener.name.inside.ssl.keystore.location": "own", "ssl.client.auth": "required"},
        {"ssl.client.auth": "none"},
        {"ssl.keystore.location": "of all"},
    )
    inside, outside = [tls_settings(layers, name) for name in ("INSIDE", "OUTSIDE")]
    assert inside.text("ssl.keystore.location") == "own"
    assert inside.shown("ssl.keystore.location") == "listener.name.inside.ssl.keystore.location=own"
    assert outside.shown("ssl.keystore.location") == "ssl.keystore.location=of all"
    assert inside.text("ssl.client.auth") == "none"  # dynamic, before the file
    assert inside != outside
    assert inside == tls_settings(layers, "inside")


def test_sasl_ssl_asks_for_certificates_only_by_the_listeners_own_key() -> None:
    """As Kafka: the key for all listeners is meant for those without SASL."""
    key = "ssl.client.auth"
    for name, wanted in ((key, "none"), (f"listener.name.login.{key}", "required")):
        settings = tls_settings(ConfigLayers({name: "required"}), "LOGIN", is_sasl=True)
        assert settings.text(key) == wanted


def test_secrets_are_not_shown() -> None:
    settings = client_settings(SECRETS)
    shown = [repr(settings), *[settings.shown(key) for key in SECRETS]]
    assert "secret" not in " ".join(shown)
    assert shown[1:] == [*SECRETS]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("ssl.enabled.protocols=TLSv1.1,TLSv1.2", "=TLSv1.1,TLSv1.2: expected TLSv1.2, TLSv1.3"),
        ("ssl.enabled.protocols=SSLv3", "ssl.enabled.protocols=SSLv3: expected TLSv1.2, TLSv1.3"),
        ("ssl.protocol=TLSv1", "ssl.protocol=TLSv1: expected TLSv1.2 or TLSv1.3"),
        ("ssl.client.auth=maybe", "ssl.client.auth=maybe: expected one of "),
        ("ssl.engine.factory.class=x.Y", "ssl.engine.factory.class=x.Y: Java classes can't"),
        ("ssl.keystore.type=BCFKS", "ssl.keystore.type=BCFKS: expected PEM or PKCS12"),
        ("ssl.endpoint.identification.algorithm=ldap", "=ldap: expected https, or nothing"),
        ("ssl.cipher.suites=TLS_AES_128_GCM_SHA256", "can't be chosen one by one; name all of"),
        (
            "ssl.cipher.suites=ECDHE-RSA-AES256-GCM-SHA384 ssl.enabled.protocols=TLSv1.3",
            "none of them is of a version in ssl.enabled.protocols",
        ),
        ("ssl.keystore.key=secret-3", "ssl.keystore.certificate.chain is not set: the key and"),
        (
            "ssl.keystore.key=secret-3 ssl.keystore.certificate.chain=c ssl.keystore.location=f",
            "ssl.keystore.key: give it or ssl.keystore.location, not both",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_refused(case: str, message: str) -> None:
    settings = client_settings(dict(pair.split("=") for pair in case.split()))
    with pytest.raises(ConfigError) as error:
        check_tls(settings)
    assert message in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("suites", "versions"),
    [
        ("", ["TLSv1.2", "TLSv1.3"]),
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", ["TLSv1.2"]),
        (
            "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256",
            ["TLSv1.3"],
        ),
    ],
)
def test_suites_of_one_version_exclude_the_other(suites: str, versions: list[str]) -> None:
    settings = client_settings({"ssl.cipher.suites": suites})
    check_tls(settings)
    assert settings.versions == versions


@pytest.mark.parametrize(
    ("standard", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_128_CBC_SHA256", "DHE-RSA-AES128-SHA256"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_suites_have_the_names_of_openssl(standard: str, openssl: str) -> None:
    assert openssl_suite(standard) == openssl


NAME = "CN=kafka1.example.com,OU=ops,O=Example,C=DE"


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("DEFAULT", f"User:{NAME}"),
        ("", f"User:{NAME}"),
        ("RULE:^CN=(.*?),.*$/$1/", "User:kafka1.example.com"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U, DEFAULT", "User:KAFKA1.EXAMPLE.COM@OPS"),
        ("RULE:^CN=other,.*$/x/,RULE:^CN=(.*?),.*$/u-$1/L", "User:u-kafka1.example.com"),
        ("RULE:^CN=other,.*$/x/,DEFAULT", f"User:{NAME}"),
        ("RULE:^CN=other,.*$/x/", None),
        ("RULE:^(CN=kafka1).*$/a\\/$1/", "User:a/CN=kafka1"),
    ],
)
def test_principals_are_mapped_by_the_first_rule_that_matches(
    rules: str, principal: str | None
) -> None:
    assert principal_mapper(rules)(NAME) == principal


@pytest.mark.parametrize("rules", ["RULE:", "OTHER", "RULE:(/x/", "RULE:^CN=.*$/$1/", "RULE:a/b/X"])
def test_invalid_rules_are_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"^ssl\.principal\.mapping\.rules="):
        principal_mapper(rules)


def test_keys_of_a_listener_are_not_listed_as_without_effect() -> None:
    texts = {"listener.name.inside.ssl.keystore.location": "x", "ssl.keystore.type": "PEM"}
    assert warnings(texts) == []
