"""Reads `server.properties` from disk."""

from __future__ import annotations

from kraftlog.config.read_config import read_config
from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.config.broker import BrokerConfig


def load_config(path: str, overrides: Mapping[str, str]) -> tuple[BrokerConfig, list[str]]:
    """The settings of a file with overrides, and warnings about them."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error}") from None
    try:
        return read_config(text, overrides)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
