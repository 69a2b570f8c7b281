"""Client properties: the file of `--command-config`, and the properties that a client uses."""

from __future__ import annotations

from kraftlog.client.arguments import MAX_INT32
from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.client.client import Client

DEFAULT_SERVER = "127.0.0.1:9092"


def read_properties(path: str | None) -> dict[str, str]:
    """The properties of a file; none without a path."""
    from kraftlog.config.properties import parse

    return {} if path is None else parse(read_text(path))


def timeout_s(properties: Mapping[str, str]) -> float:
    """How long a request may take, with all its attempts."""
    return whole_number_property(properties, "default.api.timeout.ms", 30_000) / 1000


def client_by(properties: Mapping[str, str], servers: str, *, controllers: bool = False) -> Client:
    """A client with these properties."""
    from kraftlog.client.client import Client

    return Client(
        servers,
        timeout_s=timeout_s(properties),
        client_id=properties.get("client.id", "kraftlog"),
        controllers=controllers,
        security=properties,
    )


def whole_number_property(properties: Mapping[str, str], key: str, default: int) -> int:
    """The value of a property that is a whole number of at least 0."""
    text = properties.get(key, str(default)).strip()
    if not (text.isascii() and text.isdecimal() and int(text) <= MAX_INT32):
        raise ConfigError(f"{key}={text}: expected a whole number of at least 0")
    return int(text)


def read_text(path: str) -> str:
    """Read a text file that the user names."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error}") from None
