"""What the settings say about SASL: who may log in on a listener, and how this node itself does.

A key of a listener precedes the general one, and one of a mechanism on a listener both:
`listener.name.<listener>.<mechanism>.sasl.jaas.config`.
"""

from __future__ import annotations

from kraftlog.config.endpoints import WITH_SASL
from kraftlog.config.keys import listener_prefix
from kraftlog.errors import ConfigError
from kraftlog.sasl.accept import MECHANISMS, NODE_MECHANISMS, OAUTHBEARER, PLAIN
from kraftlog.sasl.delegation_tokens import TOKEN_AUTH
from kraftlog.sasl.jaas import LOGIN_MODULES, parse_jaas
from kraftlog.sasl.jwt import TokenRules
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from kraftlog.config.broker import BrokerConfig

INTER_BROKER = "sasl.mechanism.inter.broker.protocol"
CONTROLLER = "sasl.mechanism.controller.protocol"
_ENABLED, _JAAS = "sasl.enabled.mechanisms", "sasl.jaas.config"
_USER_PREFIX = "user_"
_WHY_NOT = {
    "GSSAPI": "GSSAPI (Kafka's default) needs Kerberos, which kraftlog does not speak",
    "OAUTHBEARER": "nodes cannot log in by OAUTHBEARER, only clients",
}
_HANDLER = "sasl.server.callback.handler.class"
_VALIDATOR, _URL = "sasl.oauthbearer.jwt.validator.class", "sasl.oauthbearer.jwks.endpoint.url"
_CLASSES = "org.apache.kafka.common.security.oauthbearer."
_HANDLERS = (
    f"{_CLASSES}OAuthBearerValidatorCallbackHandler",
    f"{_CLASSES}secured.OAuthBearerValidatorCallbackHandler",  # its name until Kafka 3.9
)
_VALIDATORS = (f"{_CLASSES}DefaultJwtValidator", f"{_CLASSES}BrokerJwtValidator")


class TokenKeys(Value):
    """Where the keys of tokens are, and how often they are fetched."""

    #: The key that has the URL, and the URL: file:// or https://
    key: str
    url: str
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    #: `ssl.` options of the login module: how to trust the endpoint.
    tls: Mapping[str, str]

    def __repr__(self) -> str:
        return f"TokenKeys({self.key})"


class SaslListener(Value):
    """How clients log in on a listener."""

    mechanisms: tuple[str, ...]
    #: The users of PLAIN and their passwords.
    users: Mapping[str, str]
    max_receive_size: int
    #: The longest session by mechanism; 0: without end.
    max_reauth_ms: Mapping[str, int]
    failure_delay_ms: int
    #: What tokens of OAUTHBEARER must say, and where their keys are.
    token_rules: TokenRules | None = None
    token_keys: TokenKeys | None = None

    def __repr__(self) -> str:
        return f"SaslListener({', '.join(self.mechanisms)})"


class SaslLogin(Value):
    """How this node logs in on the listeners of others."""

    mechanism: str
    username: str
    password: str

    def __repr__(self) -> str:
        return f"SaslLogin({self.mechanism})"


def sasl_listener(config: BrokerConfig, name: str) -> SaslListener:
    """The settings of a listener with SASL; ConfigError if they do not do."""
    mechanisms = tuple(_value(config, _ENABLED, name))
    for mechanism in mechanisms:
        _check_mechanism(_key(config, _ENABLED, name), mechanism, MECHANISMS)
    if not mechanisms:
        listed = ", ".join(MECHANISMS)
        raise ConfigError(f"{_key(config, _ENABLED, name)}: expected one of {listed}")
    users = {}
    if PLAIN in mechanisms:
        users = {
            option.removeprefix(_USER_PREFIX): password
            for option, password in _login_module(config, name, PLAIN).items()
            if option.startswith(_USER_PREFIX)
        }
    return SaslListener(
        mechanisms,
        users,
        _value(config, "sasl.server.max.receive.size", name),
        {each: _value(config, "connections.max.reauth.ms", name, each) for each in mechanisms},
        config["connection.failed.authentication.delay.ms"],
        *(_tokens(config, name) if OAUTHBEARER in mechanisms else ()),
    )


def _tokens(config: BrokerConfig, listener: str) -> tuple[TokenRules, TokenKeys]:
    """How tokens of a listener are verified. What is missing is refused as by Kafka 4.4."""

    def key(name: str) -> str:
        return _key(config, name, listener, OAUTHBEARER)

    def value(name: str) -> Any:
        return config[key(name)]

    # Kafka reads the handler's class only with the prefix of the listener and the mechanism.
    handler = f"{listener_prefix(listener)}{OAUTHBEARER.lower()}.{_HANDLER}"
    if config[handler] not in _HANDLERS:
        raise ConfigError(
            f"{handler} must be {_HANDLERS[0]}: Kafka's default accepts tokens that nobody has "
            "signed, and kraftlog none of them"
        )
    if config[key(_VALIDATOR)] not in _VALIDATORS:
        raise ConfigError(
            f"{key(_VALIDATOR)}={config[key(_VALIDATOR)]}: other classes cannot be loaded; "
            f"expected {' or '.join(_VALIDATORS)}"
        )
    for expected, opened in (
        ("sasl.oauthbearer.expected.audience", "sasl.oauthbearer.allow.unverified.audience"),
        ("sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.allow.unverified.issuer"),
    ):
        if not value(expected) and not value(opened):
            raise ConfigError(
                f"{key(expected)} must be set: otherwise tokens for others would do; or set "
                f"{opened}=true"
            )
    url = (value(_URL) or "").strip()
    if not url.startswith(("file:/", "https://")):
        raise ConfigError(
            f"{key(_URL)}: expected file:///PATH or https://…, where the keys are that sign "
            "tokens; whoever can change them on the way can log in as anyone"
        )
    options = _login_module(config, listener, OAUTHBEARER)
    rules = TokenRules(
        frozenset(value("sasl.oauthbearer.expected.audience") or ()),
        value("sasl.oauthbearer.expected.issuer") or None,
        value("sasl.oauthbearer.clock.skew.seconds"),
        value("sasl.oauthbearer.scope.claim.name"),
        value("sasl.oauthbearer.sub.claim.name"),
    )
    keys = TokenKeys(
        key(_URL),
        url,
        max(value("sasl.oauthbearer.jwks.endpoint.refresh.ms"), 1000),
        value("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        value("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
        {name: text for name, text in options.items() if name.startswith("ssl.")},
    )
    return rules, keys


def login_between_brokers(config: BrokerConfig) -> SaslLogin | None:
    """How this node logs in on the listener between brokers; None without SASL."""
    name = config.inter_broker_listener_name
    if config.protocols.get(name) not in WITH_SASL:
        return None
    login = _login(config, INTER_BROKER, name)
    # Kafka demands it, as all brokers have the same settings.
    if login.mechanism not in _value(config, _ENABLED, name):
        raise ConfigError(
            f"{INTER_BROKER}={login.mechanism}: expected one of "
            f"{_key(config, _ENABLED, name)}={','.join(_value(config, _ENABLED, name))}"
        )
    return login


def login_at_controllers(config: BrokerConfig) -> SaslLogin | None:
    """How this node logs in on the controllers' listener; None without SASL."""
    name = config.controller_listener_names[0].upper()
    if config.protocols.get(name) not in WITH_SASL:
        return None
    if config[CONTROLLER] != PLAIN and config[CONTROLLER] in NODE_MECHANISMS:
        raise ConfigError(
            f"{CONTROLLER}={config[CONTROLLER]}: expected {PLAIN}; the credentials of SCRAM are in "
            "the metadata log, which a controller has only once it is logged in"
        )
    return _login(config, CONTROLLER, name)


def check_sasl(config: BrokerConfig) -> None:
    """Raise ConfigError if a listener's SASL, or this node's own logins, cannot be served."""
    for listener in config.listeners:
        if listener.protocol in WITH_SASL:
            sasl_listener(config, listener.name)
    if config.is_broker:
        login_between_brokers(config)
    login_at_controllers(config)


def _login(config: BrokerConfig, key: str, listener: str) -> SaslLogin:
    mechanism: str = config[key]
    _check_mechanism(key, mechanism, NODE_MECHANISMS)
    options = _login_module(config, listener, mechanism)
    for option in ("username", "password"):
        if not options.get(option):
            where = _jaas_key(listener, mechanism)
            raise ConfigError(f"{where} needs the option {option}: this node logs in with it")
    if options.get(TOKEN_AUTH, "").lower() == "true":
        raise ConfigError(
            f"{_jaas_key(listener, mechanism)}: nodes cannot log in by a delegation token, only "
            f"clients; remove {TOKEN_AUTH}"
        )
    return SaslLogin(mechanism, options["username"], options["password"])


def _check_mechanism(key: str, mechanism: str, among: Sequence[str]) -> None:
    if mechanism not in among:
        why = _WHY_NOT.get(mechanism, f"there is no mechanism {mechanism}")
        raise ConfigError(f"{key}: {why}; expected one of {', '.join(among)}")


def _login_module(config: BrokerConfig, listener: str, mechanism: str) -> dict[str, str]:
    """The options of the login module of a mechanism on a listener."""
    key = _jaas_key(listener, mechanism)
    text = config[key]
    if not text:
        raise ConfigError(f"{key} must be set: it has the login module of {mechanism}")
    module, options = parse_jaas(text, key)
    expected = LOGIN_MODULES[mechanism]
    if module != expected:
        raise ConfigError(f"{key}: {module} is not the login module of {mechanism}: {expected}")
    return options


def _jaas_key(listener: str, mechanism: str) -> str:
    # The general key is for clients: Kafka's brokers ignore it, too.
    return f"{listener_prefix(listener)}{mechanism.lower()}.{_JAAS}"


def _value(config: BrokerConfig, key: str, listener: str, mechanism: str = "") -> Any:
    return config[_key(config, key, listener, mechanism)]


def _key(config: BrokerConfig, key: str, listener: str, mechanism: str = "") -> str:
    """The most specific of the keys that is set, or the general one."""
    of_listener = listener_prefix(listener)
    for name in (f"{of_listener}{mechanism.lower()}.{key}", f"{of_listener}{key}"):
        if config.is_given(name):
            return name
    return key
