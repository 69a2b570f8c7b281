"""`Security`: how a client protects its connections and logs in, by Kafka's properties.

`security_of` reads and checks the properties once; a connection uses the result. It can be pickled,
so that it reaches the workers of Spark, and it never shows a secret.
"""

from __future__ import annotations

from kraftlog.config.endpoints import SECURITY_PROTOCOLS
from kraftlog.errors import ConfigError
from kraftlog.sasl.delegation_tokens import TOKEN_AUTH
from kraftlog.sasl.jaas import LOGIN_MODULES, parse_jaas
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Mapping

    from kraftlog.sasl.initiate import Exchange

PLAINTEXT = "PLAINTEXT"
PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
#: The properties that are used. Others of TLS and SASL are for Java.
TLS_KEYS = (
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.truststore.password",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "ssl.enabled.protocols",
    "ssl.protocol",
    "ssl.cipher.suites",
)
SASL_KEYS = (
    "sasl.mechanism",
    "sasl.jaas.config",
    "sasl.oauthbearer.token.endpoint.url",
)
KEYS = ("security.protocol", *TLS_KEYS, *SASL_KEYS)


class Security:
    """A protocol other than PLAINTEXT, with what it needs."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = tuple(sorted((k, v) for k, v in properties.items() if k in KEYS))
        protocol = properties["security.protocol"].upper()
        self.uses_tls = protocol.endswith("SSL")
        self.mechanism = ""
        if protocol.startswith("SASL"):
            self.mechanism, self._options = _login(properties)
        self.protocol = protocol
        if self.uses_tls:
            from kraftlog.client import tls

            tls.check(properties)

    def __repr__(self) -> str:
        return f"<{f'Security {self.protocol} {self.mechanism}'.rstrip()}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Security) and self._properties == other._properties

    def __hash__(self) -> int:
        return hash(self._properties)

    def handshake(self, plain: socket.socket, host: str, address: str) -> ssl.SSLSocket:
        """Protect a connected socket."""
        from kraftlog.client import tls

        return tls.handshake(plain, tls.context_of(self._properties), host, address)

    def exchange(self) -> Exchange:
        """A new exchange of the mechanism."""
        from kraftlog.sasl import initiate

        options = self._options
        if self.mechanism == OAUTHBEARER:
            from kraftlog.client.tokens import token_source

            source = token_source(dict(self._properties), options)
            prefix = "extension_"
            extensions = {
                key.removeprefix(prefix): value
                for key, value in options.items()
                if key.startswith(prefix)
            }
            return initiate.oauthbearer(source, extensions)
        if self.mechanism == PLAIN:
            return initiate.plain(options["username"], options["password"])
        from secrets import token_urlsafe

        return initiate.scram(
            self.mechanism,
            options["username"],
            options["password"],
            token_urlsafe(24),
            by_token=options.get(TOKEN_AUTH, "").lower() == "true",
        )


def security_of(properties: Mapping[str, str], *, prefix: str = "") -> Security | None:
    """What the properties ask for; None for PLAINTEXT.

    `prefix` precedes the names of properties in errors, such as `option kafka.`.
    """
    given = {key: value.strip() for key, value in properties.items()}
    protocol = given.get("security.protocol") or PLAINTEXT
    if protocol.upper() not in SECURITY_PROTOCOLS:
        raise ConfigError(
            f"{prefix}security.protocol={protocol}: expected one of {', '.join(SECURITY_PROTOCOLS)}"
        )
    if protocol.upper() == PLAINTEXT:
        return None
    try:
        return Security({**given, "security.protocol": protocol})
    except ConfigError as error:
        raise ConfigError(f"{prefix}{error}") from None


def _login(properties: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The mechanism and the options of its login module."""
    mechanism = properties.get("sasl.mechanism") or "GSSAPI"
    if mechanism == "GSSAPI":
        raise ConfigError(
            "sasl.mechanism=GSSAPI (Kafka's default) needs Kerberos, which this client does not "
            "speak: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
        )
    if mechanism not in LOGIN_MODULES:
        raise ConfigError(f"sasl.mechanism={mechanism}: expected one of {', '.join(LOGIN_MODULES)}")
    text = properties.get("sasl.jaas.config")
    if not text:
        if mechanism == OAUTHBEARER:
            return mechanism, {}
        raise ConfigError(f"sasl.jaas.config must be set: it has the user of {mechanism}")
    module, options = parse_jaas(text)
    if module != LOGIN_MODULES[mechanism]:
        raise ConfigError(f"sasl.jaas.config: {module} is not the login module of {mechanism}")
    if mechanism != OAUTHBEARER:
        for name in ("username", "password"):
            if name not in options:
                raise ConfigError(f"sasl.jaas.config: {module} needs the option {name}")
    return mechanism, options
