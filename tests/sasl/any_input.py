"""What any bytes may do to those who read them before a login: be refused, with the right error."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from kraftlog.errors import ConfigError
from kraftlog.sasl import accept
from kraftlog.sasl.accept import LoginRefusedError, RefusingToken
from kraftlog.sasl.jaas import parse_jaas
from kraftlog.sasl.jwt import TokenError, TokenRules, check_token, read_jwks
from kraftlog.sasl.scram import keys_of, salted_password
from kraftlog.tls.certificates import parse_certificate
from tests.tokens import jwk, jwks, now_s

if TYPE_CHECKING:
    from collections.abc import Callable

#: Separates the messages of one login. UTF-8 does not have it.
SEPARATOR = b"\xfe"
_NONCE = "fyko+d2lbbFgONRv9qkxdawL"
#: Nobody can guess it, a fuzzer that looks at what is compared neither.
_PASSWORD = secrets.token_hex(16)
_SALT = b"salt"
_KEYS = read_jwks(jwks(jwk("RSA"), jwk("ES256")))
_RULES = TokenRules(
    audiences=frozenset(), issuer=None, skew_s=30, scope_claim="scope", sub_claim="sub"
)


def _exchanges() -> dict[str, Callable[[], accept.Exchange]]:
    made: dict[str, Callable[[], accept.Exchange]] = {
        "plain": lambda: accept.plain({"alice": _PASSWORD}),
        "oauthbearer": lambda: accept.oauthbearer(
            lambda text: check_token(text, _KEYS, _RULES, now_s() * 1000)
        ),
    }
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        salted = salted_password(mechanism, _PASSWORD, _SALT, 4096)
        users = {"alice": keys_of(mechanism, salted, _SALT, 4096)}
        made[mechanism] = lambda mechanism=mechanism, users=users: accept.scram(  # type: ignore[misc]  # of two types
            mechanism, users.get, _NONCE, b"secret"
        )
    return made


_EXCHANGES = _exchanges()


def _log_in(started: accept.Exchange, messages: list[bytes]) -> None:
    """No messages end in a login."""
    next(started)
    for message in messages:
        try:
            answer = started.send(message)
        except LoginRefusedError:
            return
        except StopIteration:
            raise AssertionError(f"{messages} are a login") from None
        assert isinstance(answer, (bytes, RefusingToken))


#: Reads bytes; what it may raise.
_READERS: dict[str, tuple[Callable[[bytes], object], type[Exception]]] = {
    "jaas": (lambda data: parse_jaas(data.decode("utf-8", "replace")), ConfigError),
    "jwks": (read_jwks, ConfigError),
    "jwt": (
        lambda data: check_token(data.decode("utf-8", "replace"), _KEYS, _RULES, now_s() * 1000),
        TokenError,
    ),
    "certificate": (parse_certificate, ValueError),
}
NAMES = (*_EXCHANGES, *_READERS)


def assert_refused(data: bytes) -> None:
    """The first byte chooses who reads the rest."""
    if not data:
        return
    name, rest = NAMES[data[0] % len(NAMES)], data[1:]
    if name in _EXCHANGES:
        _log_in(_EXCHANGES[name](), rest.split(SEPARATOR)[:4])
        return
    read, error = _READERS[name]
    try:
        read(rest)
    except error:
        return
