"""Parses addresses in settings: servers, voters, listeners."""

from __future__ import annotations

from kraftlog.errors import ConfigError
from kraftlog.types import uuid_from_text
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.types import Uuid

MAX_PORT = 65_535
_HOST_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._%:")
#: Kafka's numbers of the protocols are their positions.
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
WITH_TLS = ("SSL", "SASL_SSL")
WITH_SASL = ("SASL_PLAINTEXT", "SASL_SSL")


class Listener(Value):
    """A listener or advertised listener; an empty host means all addresses."""

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        return f"{self.name}://{bracketed(self.host)}:{self.port}"

    @property
    def is_wildcard(self) -> bool:
        """Whether the listener is on all addresses, which cannot be advertised."""
        return not self.host or is_any_address(self.host)


class QuorumVoter(Value):
    """A configured voter; static ones have no directory id.

    One that is configured by its id alone has no host and the port 0: discovery finds its address.
    """

    id: int
    host: str
    port: int
    directory_id: Uuid | None = None


def is_any_address(host: str) -> bool:
    """Whether a host is an address of only zeros and separators, such as `0.0.0.0` or `::`.

    It stands for all addresses, so clients cannot connect to it. The empty host is not one.
    """
    return bool(host) and not host.strip("0.:")


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def parse_server(text: str) -> tuple[str, int] | None:
    """Parse `host:port` or `[::1]:port`; None if invalid."""
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return None
    if not (host and set(host) <= _HOST_CHARACTERS and _is_port(port)):
        return None
    return host, int(port)


def _is_port(text: str) -> bool:
    return text.isdecimal() and text.isascii() and int(text) <= MAX_PORT


def parse_voter(text: str) -> QuorumVoter | None:
    """Parse `id@host:port`; None if invalid."""
    number, at, address = text.partition("@")
    server = parse_server(address)
    if not (at and number.isdecimal() and number.isascii()) or server is None:
        return None
    return QuorumVoter(int(number), *server) if not is_any_address(server[0]) else None


def parse_static_voter(text: str) -> QuorumVoter | None:
    """Parse `id@host:port`, or the id alone; None if invalid (Q33)."""
    if text.isdecimal() and text.isascii():
        return QuorumVoter(int(text), "", 0)
    return parse_voter(text)


def parse_dynamic_voter(text: str) -> QuorumVoter | None:
    """Parse `id@host:port:directory-id`; None if invalid."""
    address, colon, directory = text.strip().rpartition(":")
    voter = parse_voter(address) if colon else None
    try:
        return voter.replace(directory_id=uuid_from_text(directory)) if voter else None
    except ValueError:
        return None


def parse_listener(text: str, key: str, protocols: dict[str, str]) -> Listener:
    """Parse `NAME://host:port`; the name needs a security protocol."""
    name, slashes, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not (slashes and name and colon and _is_port(port)):
        raise ConfigError(
            f"{key}: {text} is not of the form NAME://host:port, port up to {MAX_PORT}"
        )
    name = name.upper()
    if name not in protocols:
        raise ConfigError(
            f"{key}: listener {name} has no security protocol; add {name}:PLAINTEXT (or another of "
            f"{', '.join(SECURITY_PROTOCOLS)}) to listener.security.protocol.map"
        )
    return Listener(name, host, int(port), protocols[name])


def parse_protocol_map(text: str) -> dict[str, str]:
    """Parse `LISTENER:PROTOCOL,…` into listener -> protocol; of duplicates the last counts."""
    protocols = {}
    for entry in text.split(","):
        name, colon, protocol = entry.strip().rpartition(":")
        if not (colon and name) or protocol.upper() not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"listener.security.protocol.map: {entry.strip()!r} is not LISTENER:PROTOCOL with "
                f"one of {', '.join(SECURITY_PROTOCOLS)}"
            )
        protocols[name.strip().upper()] = protocol.upper()
    return protocols
