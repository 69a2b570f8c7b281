"""The keys of each resource type, in tables that are parsed on first use.

A line of a table is a name, a type, a default (`null`: none, `''`: empty, `required`: must be set)
and, optionally, the valid values:

    1..           at least 1                  1..9|-1     the same up to 9, or -1
    a|b           one of these (~a|b: case-insensitive), or a list of them
    +             not empty, as in +a|b       <name>      a special format, see `values`
    -             any value of the type

The next column of a broker key is its update mode: `cluster` (for one broker or for all), `broker`
(only for one), `listener` (only for one listener of one broker), `dynamic` (as cluster, not in a
file), `internal` (only in a file). Without a mode a key is read-only. A line that ends with
`internal` is described only if it is set.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Resource types, as requests number them.
TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32

#: Update modes; other words in the last column are broker keys.
_UPDATE_MODES = frozenset({"cluster", "broker", "listener", "dynamic", "internal"})


class Key(Value):
    name: str
    type: str
    default: str | None
    required: bool = False
    valid: str = "-"
    #: "": read-only
    update_mode: str = ""
    #: broker keys that give the default, and the factors that convert their unit
    synonyms: tuple[tuple[str, int], ...] = ()
    internal: bool = False

    @property
    def sensitive(self) -> bool:
        return self.type == "password"


class KeyTable:
    """The keys of a resource type, in order of their names."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text
        self._lines: dict[str, str] = {}
        self._keys: dict[str, Key] = {}

    def find(self, name: str) -> Key | None:
        key = self._keys.get(name)
        if key is None and name in self.names():
            key = self._keys[name] = _parse_line(name, self.names()[name])
        return key

    def names(self) -> dict[str, str]:
        """The names of the keys, each with the other columns of its line."""
        if not self._lines:
            pairs = [line.split(" ", 1) for line in self._text().splitlines()]
            self._lines = {name: rest for name, rest in pairs}  # noqa: C416 - the pairs are lists
        return self._lines

    def __iter__(self) -> Iterator[Key]:
        for name in self.names():
            key = self.find(name)
            assert key is not None
            yield key


def _parse_line(name: str, line: str) -> Key:
    """The key of this name, from the other columns of its line."""
    kind, default, *others = line.split()
    valid = others[0] if others else "-"
    last_column = others[1] if len(others) > 1 else ""
    return Key(
        name,
        kind,
        {"null": None, "required": None, "''": ""}.get(default, default),
        default == "required",
        valid,
        last_column if last_column in _UPDATE_MODES else "",
        tuple([_synonym(text) for text in last_column.split(",")])
        if last_column not in {*_UPDATE_MODES, ""}
        else (),
        "internal" in others[1:],
    )


def _synonym(text: str) -> tuple[str, int]:
    name, _, factor = text.partition("*")
    return name, int(factor or 1)


def _broker_table() -> str:
    from kraftlog.config.broker_keys import TABLE

    return TABLE


def _own_table() -> str:
    from kraftlog.config.broker_keys import OWN_TABLE

    return OWN_TABLE


def _topic_table() -> str:
    from kraftlog.config.resource_keys import TOPIC_TABLE

    return TOPIC_TABLE


def _group_table() -> str:
    from kraftlog.config.resource_keys import GROUP_TABLE

    return GROUP_TABLE


def _client_metrics_table() -> str:
    from kraftlog.config.resource_keys import CLIENT_METRICS_TABLE

    return CLIENT_METRICS_TABLE


BROKER_KEYS = KeyTable(_broker_table)
OWN_KEYS = KeyTable(_own_table)
TOPIC_KEYS = KeyTable(_topic_table)
GROUP_KEYS = KeyTable(_group_table)
CLIENT_METRICS_KEYS = KeyTable(_client_metrics_table)

TABLES = {
    TOPIC: TOPIC_KEYS,
    BROKER: BROKER_KEYS,
    GROUP: GROUP_KEYS,
    CLIENT_METRICS: CLIENT_METRICS_KEYS,
}


LISTENER_PREFIX = "listener.name."


def find_broker_key(name: str) -> Key | None:
    """A broker key, by its name or by its listener override."""
    base = base_name(name)
    key = BROKER_KEYS.find(base) or OWN_KEYS.find(base)
    return key if key is None or base == name else key.replace(name=name)


def listener_prefix(listener: str) -> str:
    """What precedes a key that counts for one listener alone."""
    return f"{LISTENER_PREFIX}{listener.lower()}."


def base_name(name: str) -> str:
    """The plain key of a listener override `listener.name.<listener>.[<mechanism>.]<key>`."""
    if name.startswith(LISTENER_PREFIX):
        words = name.split(".")
        for skipped in (3, 4):
            base = ".".join(words[skipped:])
            if base in BROKER_KEYS.names():
                return base
    return name
