"""What the settings say about SASL: who may log in on a listener, and how this node itself does.

A key of a listener precedes the general one, and one of a mechanism on a listener both:
`listener.name.<listener>.<mechanism>.sasl.jaas.config`.
"""

from __future__ import annotations

from kraftlog.config.endpoints import WITH_SASL
from kraftlog.config.keys import listener_prefix
from kraftlog.errors import ConfigError
from kraftlog.sasl.accept import MECHANISMS, PLAIN
from kraftlog.sasl.jaas import LOGIN_MODULES, parse_jaas
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from kraftlog.config.broker import BrokerConfig

INTER_BROKER = "sasl.mechanism.inter.broker.protocol"
CONTROLLER = "sasl.mechanism.controller.protocol"
_ENABLED, _JAAS = "sasl.enabled.mechanisms", "sasl.jaas.config"
_USER_PREFIX = "user_"
_WHY_NOT = {
    "GSSAPI": "GSSAPI (Kafka's default) needs Kerberos, which kraftlog does not speak",
    "OAUTHBEARER": "kraftlog does not verify tokens of OAUTHBEARER yet",
}


class SaslListener(Value):
    """How clients log in on a listener."""

    mechanisms: tuple[str, ...]
    #: The users of PLAIN and their passwords.
    users: Mapping[str, str]
    max_receive_size: int
    #: The longest session by mechanism; 0: without end.
    max_reauth_ms: Mapping[str, int]
    failure_delay_ms: int

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
        _check_mechanism(_key(config, _ENABLED, name), mechanism)
    if not mechanisms:
        raise ConfigError(f"{_key(config, _ENABLED, name)}: expected one of {_listed()}")
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
    )


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
    if config[CONTROLLER] != PLAIN and config[CONTROLLER] in MECHANISMS:
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
    _check_mechanism(key, mechanism)
    options = _login_module(config, listener, mechanism)
    for option in ("username", "password"):
        if not options.get(option):
            where = _jaas_key(listener, mechanism)
            raise ConfigError(f"{where} needs the option {option}: this node logs in with it")
    return SaslLogin(mechanism, options["username"], options["password"])


def _check_mechanism(key: str, mechanism: str) -> None:
    if mechanism not in MECHANISMS:
        why = _WHY_NOT.get(mechanism, f"there is no mechanism {mechanism}")
        raise ConfigError(f"{key}: {why}; expected one of {_listed()}")


def _listed() -> str:
    return ", ".join(MECHANISMS)


def _login_module(config: BrokerConfig, listener: str, mechanism: str) -> dict[str, str]:
    """The options of the login module of a mechanism on a listener."""
    key = _jaas_key(listener, mechanism)
    text = config[key]
    if not text:
        raise ConfigError(f"{key} must be set: it has the users of {mechanism}")
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
