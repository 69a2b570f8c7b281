"""SCRAM (RFC 5802) as Kafka has it: what clients, brokers and tools have in common.

Passwords are UTF-8 without SASLprep, and there is no channel binding.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Protocol

    class ScramCredential(Protocol):
        """What a broker stores of a user's password; neither key reveals it."""

        @property
        def salt(self) -> bytes: ...
        @property
        def iterations(self) -> int: ...
        @property
        def stored_key(self) -> bytes: ...
        @property
        def server_key(self) -> bytes: ...


#: The numbers of the mechanisms in the protocol and the metadata log, and their hash functions.
NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
NAMES = {number: name for name, number in NUMBERS.items()}
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
#: The iterations of a credential: fewer make its password easy to guess, more keep clients busy.
MIN_ITERATIONS, MAX_STORED_ITERATIONS = 4096, 16384


#: The bytes of a new salt; Kafka's tools make about as many.
SALT_BYTES = 26


class SaltedPassword(Value):
    """What a tool sends instead of a password: a broker makes its keys of it."""

    mechanism: str
    salt: bytes
    iterations: int
    salted: bytes

    def __repr__(self) -> str:
        return f"SaltedPassword({self.mechanism})"


class ScramKeys(Value):
    """A credential that does not say whose it is."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ScramKeys(iterations={self.iterations})"


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    import hashlib

    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def keys_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramKeys:
    """What a broker stores."""
    return ScramKeys(
        salt,
        iterations,
        digest(mechanism, client_key(mechanism, salted)),
        server_key(mechanism, salted),
    )


def client_key(mechanism: str, salted: bytes) -> bytes:
    return keyed(mechanism, salted, b"Client Key")


def server_key(mechanism: str, salted: bytes) -> bytes:
    return keyed(mechanism, salted, b"Server Key")


def digest(mechanism: str, data: bytes) -> bytes:
    import hashlib

    return hashlib.new(HASHES[mechanism], data).digest()


def digest_size(mechanism: str) -> int:
    return int(mechanism[-3:]) // 8


def keyed(mechanism: str, key: bytes, text: bytes) -> bytes:
    import hmac

    return hmac.digest(key, text, HASHES[mechanism])


def xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def escaped(name: str) -> str:
    """A name as `saslname`."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(saslname: str) -> str | None:
    """The name; None if the text has `=` or `,` other than as escapes."""
    name = saslname.replace("=2C", ",").replace("=3D", "=")
    return name if escaped(name) == saslname else None
