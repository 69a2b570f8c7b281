"""`TlsSettings`: the `ssl.` settings of a listener, or of a client."""

from __future__ import annotations

from kraftlog.config.effective import TLS
from kraftlog.config.keys import LISTENER_PREFIX, find_broker_key, listener_prefix
from kraftlog.config.layers import DEFAULT_CONFIG
from kraftlog.config.values import parse_value
from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.config.layers import ConfigLayers

KEYSTORE, TRUSTSTORE = "ssl.keystore", "ssl.truststore"
TLS_KEYS = tuple(TLS)
VERSIONS = ("TLSv1.2", "TLSv1.3")
STORE_TYPES = ("PEM", "PKCS12", "JKS")
#: The suites of TLS 1.3 that OpenSSL offers. Python can't choose among them.
SUITES_OF_TLS_1_3 = frozenset(
    ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
)


class Given(Value):
    """A setting, and the key that sets it: that of the listener, or that of all listeners."""

    name: str
    text: str


class TlsSettings:
    """Settings by their plain keys; secrets are never part of an error or of the repr."""

    def __init__(self, given: Mapping[str, Given], *, is_sasl: bool = False) -> None:
        self._given = dict(given)
        if is_sasl and not self.name("ssl.client.auth").startswith(LISTENER_PREFIX):
            # As with Kafka: clients of SASL_SSL show a certificate only if their listener asks.
            self._given.pop("ssl.client.auth", None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TlsSettings) and self._given == other._given

    def __hash__(self) -> int:
        return hash(tuple(sorted((key, each.text) for key, each in self._given.items())))

    def __repr__(self) -> str:
        return f"<TlsSettings {' '.join(sorted(each.name for each in self._given.values()))}>"

    def name(self, key: str) -> str:
        """The key as it was written, for errors."""
        return self._given[key].name if key in self._given else key

    def shown(self, key: str) -> str:
        """The key and its value, or the key alone if the value is secret or missing."""
        found = find_broker_key(key)
        if key not in self._given or found is None or found.sensitive:
            return self.name(key)
        return f"{self._given[key].name}={self._given[key].text}"

    def is_given(self, key: str) -> bool:
        return bool(self._given[key].text) if key in self._given else False

    def text(self, key: str) -> str:
        """The value; empty without one."""
        found = find_broker_key(key)
        assert found is not None
        given = self._given.get(key)
        return (found.default or "") if given is None else given.text.strip()

    def items(self, key: str) -> list[str]:
        return [item.strip() for item in self.text(key).split(",") if item.strip()]

    @property
    def files(self) -> list[str]:
        """The files whose changes are noticed."""
        keys = [f"{store}.location" for store in (KEYSTORE, TRUSTSTORE)]
        return [self.text(key) for key in keys if self.is_given(key)]

    @property
    def checks_host_names(self) -> bool:
        return bool(self.text("ssl.endpoint.identification.algorithm"))

    @property
    def versions(self) -> list[str]:
        """The enabled versions of TLS; those whose suites are all excluded are not among them."""
        enabled = [version for version in VERSIONS if version in self.enabled_versions]
        suites = self.items("ssl.cipher.suites")
        if suites and not self.suites_of_tls_1_2:
            enabled = [version for version in enabled if version != "TLSv1.2"]
        if suites and not SUITES_OF_TLS_1_3 & set(suites):
            enabled = [version for version in enabled if version != "TLSv1.3"]
        return enabled

    @property
    def enabled_versions(self) -> list[str]:
        """The items of `ssl.enabled.protocols`; unknown ones as they were written."""
        known = {version.upper(): version for version in VERSIONS}
        return [known.get(name.upper(), name) for name in self.items("ssl.enabled.protocols")]

    @property
    def suites_of_tls_1_2(self) -> list[str]:
        """The chosen suites of TLS 1.2, by OpenSSL's names."""
        names = self.items("ssl.cipher.suites")
        return [openssl_suite(name) for name in names if name not in SUITES_OF_TLS_1_3]


def tls_settings(layers: ConfigLayers, listener: str, *, is_sasl: bool = False) -> TlsSettings:
    """The settings of a listener; those with its prefix take precedence, whatever sets them."""
    given = {}
    for key in TLS_KEYS:
        for name in (f"{listener_prefix(listener)}{key}", key):
            value = next(iter(layers.values_of([name])), None)
            if value is not None and value.source != DEFAULT_CONFIG and value.value is not None:
                given[key] = Given(name, value.value)
                break
    return TlsSettings(given, is_sasl=is_sasl)


def client_settings(properties: Mapping[str, str]) -> TlsSettings:
    """The settings of a client, from its properties."""
    return TlsSettings(
        {key: Given(key, properties[key]) for key in TLS_KEYS if properties.get(key) is not None}
    )


def check_tls(settings: TlsSettings) -> None:
    """Refuse values that no context can be made of; files are not read."""
    for key in TLS_KEYS:
        found = find_broker_key(key)
        if settings.is_given(key) and found is not None:
            parse_value(found.replace(name=settings.name(key)), settings.text(key))
    if settings.is_given("ssl.engine.factory.class"):
        raise ConfigError(
            f"{settings.shown('ssl.engine.factory.class')}: Java classes can't be used; remove "
            "the key"
        )
    _check_versions(settings)
    _check_suites(settings)
    for store in (KEYSTORE, TRUSTSTORE):
        _check_store(settings, store)
    algorithm = "ssl.endpoint.identification.algorithm"
    if settings.text(algorithm).lower() not in {"https", ""}:
        raise ConfigError(f"{settings.shown(algorithm)}: expected https, or nothing")


def _check_versions(settings: TlsSettings) -> None:
    key = "ssl.enabled.protocols"
    names = settings.enabled_versions
    if not names or not set(names) <= set(VERSIONS):
        raise ConfigError(f"{settings.shown(key)}: expected TLSv1.2, TLSv1.3 or both")
    key = "ssl.protocol"
    if settings.text(key).upper() not in {"TLS", *[version.upper() for version in VERSIONS]}:
        raise ConfigError(f"{settings.shown(key)}: expected TLSv1.2 or TLSv1.3")


def _check_suites(settings: TlsSettings) -> None:
    key = "ssl.cipher.suites"
    chosen = SUITES_OF_TLS_1_3 & set(settings.items(key))
    if chosen and chosen != SUITES_OF_TLS_1_3:
        raise ConfigError(
            f"{settings.shown(key)}: the suites of TLS 1.3 can't be chosen one by one; name all of "
            f"{', '.join(sorted(SUITES_OF_TLS_1_3))}, or none for TLS 1.2 alone"
        )
    if not settings.versions:
        raise ConfigError(
            f"{settings.shown(key)}: none of them is of a version in ssl.enabled.protocols"
        )


def _check_store(settings: TlsSettings, store: str) -> None:
    kind = f"{store}.type"
    if settings.text(kind).upper() not in STORE_TYPES:
        raise ConfigError(f"{settings.shown(kind)}: expected PEM or PKCS12")
    location = f"{store}.location"
    for inline in ("key", "certificate.chain") if store == KEYSTORE else ("certificates",):
        key = f"{store}.{inline}"
        if settings.is_given(key) and settings.is_given(location):
            raise ConfigError(
                f"{settings.name(key)}: give it or {settings.name(location)}, not both"
            )
    if store == KEYSTORE:
        pair = [f"{store}.key", f"{store}.certificate.chain"]
        missing = [key for key in pair if not settings.is_given(key)]
        if len(missing) == 1:
            raise ConfigError(
                f"{missing[0]} is not set: the key and its certificates belong together"
            )


def openssl_suite(name: str) -> str:
    """OpenSSL's name of a suite of TLS 1.2, which Java calls by its name in the standard."""
    exchange, with_, cipher = name.removeprefix("TLS_").partition("_WITH_")
    if not with_:
        return name
    for standard, openssl in (
        ("AES_128", "AES128"),
        ("AES_256", "AES256"),
        ("_CBC", ""),
        ("POLY1305_SHA256", "POLY1305"),
    ):
        cipher = cipher.replace(standard, openssl)
    parts = [cipher] if exchange == "RSA" else [exchange, cipher]
    return "-".join(parts).replace("_", "-")
