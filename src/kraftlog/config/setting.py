"""`setting()`: a config value as a typed attribute.

class TopicConfig:
    def __getitem__(self, key: str) -> Any: ...

    retention_ms: int = setting()       # self["retention.ms"]
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Setting:
    """A descriptor that looks up its key in the configuration."""

    __slots__ = ("key",)

    def __init__(self) -> None:
        self.key = ""

    def __set_name__(self, _: type, attribute: str) -> None:
        self.key = attribute.replace("_", ".")

    def __get__(self, config: Mapping[str, Any] | None, _: type) -> Any:
        return self if config is None else config[self.key]


def setting() -> Any:
    """A typed setting; the key is the attribute name with dots for underscores."""
    return Setting()
