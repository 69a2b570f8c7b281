"""SCRAM credentials as Kafka's tools take them: `SCRAM-SHA-512=[key=value,…]`."""

from __future__ import annotations

from kraftlog.errors import ConfigError
from kraftlog.sasl.scram import (
    MAX_STORED_ITERATIONS,
    MIN_ITERATIONS,
    NUMBERS,
    SALT_BYTES,
    SaltedPassword,
    keys_of,
    salted_password,
)
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.wire.messages.metadata_records import UserScramCredentialRecord

_KEYS = ("name", "password", "salt", "saltedpassword", "iterations")


def scram_record(text: str) -> UserScramCredentialRecord:
    """The record of a credential, which names its user; an error never quotes it."""
    from kraftlog.wire.messages.metadata_records import UserScramCredentialRecord

    mechanism, equals, rest = text.partition("=")
    if not equals or mechanism not in NUMBERS:
        raise ConfigError(f"--add-scram: expected one of {', '.join(NUMBERS)} and =[name=…,…]")
    what = f"--add-scram {mechanism}"
    values = _values(rest, what)
    name = values.pop("name", "")
    if not name:
        raise ConfigError(f"{what}: expected name=USER")
    made = _salted(mechanism, values, what)
    keys = keys_of(mechanism, made.salted, made.salt, made.iterations)
    return UserScramCredentialRecord(
        name=name,
        mechanism=NUMBERS[mechanism],
        salt=keys.salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=keys.iterations,
    )


def salted_from(mechanism: str, text: str) -> SaltedPassword:
    """The credential of a user that is named elsewhere, from `[iterations=…,password=…]`."""
    what = f"--add-config {mechanism}"
    return _salted(mechanism, _values(text, what), what)


def _values(text: str, what: str) -> dict[str, str]:
    """`key=value,…`, in brackets or not; values may be quoted."""
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    values = {}
    for pair in text.split(","):
        key, equals, value = pair.strip().partition("=")
        if not equals or key not in _KEYS:
            raise ConfigError(f"{what}: expected [KEY=VALUE,…] with the keys {', '.join(_KEYS)}")
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = value[1:-1]
        values[key] = value
    return values


def _salted(mechanism: str, values: dict[str, str], what: str) -> SaltedPassword:
    from secrets import token_bytes

    iterations = _iterations(values.get("iterations", ""), what)
    salt = (
        _decoded(values["salt"], f"{what}: salt") if "salt" in values else token_bytes(SALT_BYTES)
    )
    if "saltedpassword" in values:
        if "salt" not in values or "password" in values:
            raise ConfigError(f"{what}: saltedpassword needs salt, and no password")
        salted = _decoded(values["saltedpassword"], f"{what}: saltedpassword")
    elif values.get("password"):
        salted = salted_password(mechanism, values["password"], salt, iterations)
    else:
        raise ConfigError(f"{what}: expected password=… or saltedpassword=…")
    return SaltedPassword(mechanism, salt, iterations, salted)


def _iterations(text: str, what: str) -> int:
    """As many as are given, or the least: kafka-configs takes -1 for its default."""
    if text in {"", "-1"}:
        return MIN_ITERATIONS
    if not text.isdecimal() or not MIN_ITERATIONS <= int(text) <= MAX_STORED_ITERATIONS:
        raise ConfigError(
            f"{what}: iterations: expected {MIN_ITERATIONS} to {MAX_STORED_ITERATIONS}"
        )
    return int(text)


def _decoded(text: str, what: str) -> bytes:
    from base64 import b64decode

    try:
        decoded = b64decode(text, validate=True)
    except ValueError:
        decoded = b""
    if not decoded:
        raise ConfigError(f"{what}: expected base64")
    return decoded
