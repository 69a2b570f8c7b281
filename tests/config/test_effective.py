"""The documented keys are exactly those with an effect; no attribute is unused."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING

import pytest

from kraftlog.config.broker import BrokerConfig
from kraftlog.config.effective import EFFECTIVE, TLS
from kraftlog.config.keys import BROKER, BROKER_KEYS, TOPIC, TOPIC_KEYS
from kraftlog.config.setting import Setting
from tests.house_rules import repository

if TYPE_CHECKING:
    from collections.abc import Iterator

#: In one worker, as the sources are parsed once there.
pytestmark = pytest.mark.xdist_group("keys that are read")


@pytest.fixture(scope="module", autouse=True)
def trees_are_dropped() -> Iterator[None]:
    """Later collections of garbage need not traverse them."""
    yield
    sources.cache_clear()


#: Clients have properties of their own, some with the names of a broker's keys.
CLIENTS = "src/kraftlog/client/"
#: They read their keys for others.
READERS = tuple(
    f"src/kraftlog/config/{name}.py" for name in ("authorizer", "delegation_tokens", "sasl")
)


def test_keys_that_are_read_are_documented() -> None:
    inherited = {
        name for key in TOPIC_KEYS if key.name in EFFECTIVE[TOPIC] for name, _ in key.synonyms
    }
    read = {*keys_read(), *inherited, *TLS} & set(BROKER_KEYS.names())
    assert len(read) > 60
    assert read | {"broker.id"} == set(EFFECTIVE[BROKER])  # the former name of node.id


def test_every_attribute_of_the_configuration_is_read() -> None:
    in_config = {
        node.attr
        for path, tree in sources()
        if path.startswith("src/kraftlog/config/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
    }
    assert sorted(set(attributes()) - attributes_read() - in_config) == []


@cache
def sources() -> list[tuple[str, ast.AST]]:
    return [
        (path, ast.parse(text))
        for path, text in repository().items()
        if path.startswith("src/") and path.endswith(".py") and not path.startswith(CLIENTS)
    ]


def attributes() -> dict[str, set[str]]:
    """Every attribute of BrokerConfig, with the attributes and keys that it uses."""
    settings = vars(BrokerConfig).items()
    uses = {name: {it.key} for name, it in settings if isinstance(it, Setting)}
    for name, tree in property_bodies():
        uses[name] = set(words_in(tree))
    return uses


def property_bodies() -> Iterator[tuple[str, ast.AST]]:
    [config] = [
        node
        for path, tree in sources()
        if path == "src/kraftlog/config/broker.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    for node in config.body:
        if isinstance(node, ast.FunctionDef) and node.name not in NO_SETTINGS:
            yield node.name, node


#: Methods of BrokerConfig that read no particular key.
NO_SETTINGS = frozenset({"__init__", "__getitem__", "is_given"})


def words_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def attributes_read() -> set[str]:
    """Attributes that are read outside `kraftlog.config`, as `settings.<name>`."""
    return {
        node.attr
        for path, tree in sources()
        if not path.startswith("src/kraftlog/config/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and last_name(node.value).endswith("settings")
    }


def last_name(node: ast.expr) -> str:
    """`c` of `c` or of `a.b.c`; empty for any other expression."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def keys_read() -> set[str]:
    """Keys that are read outside `kraftlog.config`, by name or attribute, among other words."""
    uses = attributes()
    read = attributes_read()
    unexpanded = [name for name in uses if name in read]
    while unexpanded:
        more = uses[unexpanded.pop()] - read
        read |= more
        unexpanded += [name for name in more if name in uses]
    named = {
        node.value
        for path, tree in sources()
        if not path.startswith("src/kraftlog/config/") or path in READERS
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return read | named
