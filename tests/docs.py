"""Writes the generated tables in Markdown files, and the page of `tests.index`.

    python -m tests.docs            write them
    python -m tests.docs --check    write nothing; fail if a table is out of date

The page is not in git: the check is that it can be made.
A table is between `<!-- made by make docs: NAME -->` and `<!-- end -->`; TABLES has its function.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from typing import TYPE_CHECKING

from kraftlog.config.effective import DOCUMENTED, EFFECTIVE
from kraftlog.config.keys import BROKER, BROKER_KEYS, OWN_KEYS
from kraftlog.config.keys import TABLES as KEY_TABLES
from kraftlog.config.values import expected
from kraftlog.node.api_table import SERVED
from kraftlog.node.metrics import (
    access_metrics,
    broker_metrics,
    controller_metrics,
    registry,
)
from kraftlog.server import pages
from kraftlog.wire import apis
from tests import index
from tests.house_rules import ROOT, repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PLACE = re.compile(
    r"(<!-- made by make docs: (?P<name>[\w-]+) -->\n)(?P<table>.*?)(<!-- end -->)", re.DOTALL
)


def settings_table(_: dict[str, str]) -> str:
    """Every key with an effect, for each kind of resource."""
    lines = ["| key | type | default | accepted | what it does |", "|---|---|---|---|---|"]
    for kind, keys in DOCUMENTED.items():
        for name, what in sorted(keys.items()):
            key = KEY_TABLES[kind].find(name) or OWN_KEYS.find(name)
            assert key, f"{name} is no key"
            default = "none" if key.default is None else f"`{key.default}`" if key.default else ""
            cells = (f"`{name}`", key.type, default, expected(key).replace("|", "\\|"), what)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def settings_without_effect(_: dict[str, str]) -> str:
    """Kafka's broker keys that are accepted without effect."""
    without_effect = [f"`{name}`" for name in BROKER_KEYS.names() if name not in EFFECTIVE[BROKER]]
    return textwrap.fill(
        ", ".join(without_effect), 100, break_on_hyphens=False, break_long_words=False
    )


def apis_table(_: dict[str, str]) -> str:
    """Every served API with its versions, listeners and handler file."""
    kinds = {apis.BROKER: "brokers", apis.CONTROLLER: "controllers", apis.BOTH: "both"}
    lines = ["| API | key | versions | listener | handler |", "|---|---|---|---|---|"]
    for served in sorted(SERVED.values(), key=lambda served: served.key):
        api, file = apis.APIS[served.key], f"{served.handler.replace('.', '/')}.py"
        where = f"[{file}](../../src/kraftlog/node/{file})"
        versions = f"{served.first}-{served.last}" if served.first < served.last else served.last
        cells = (api.name, api.key, versions, kinds[api.listeners], where)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def metrics_table(_: dict[str, str]) -> str:
    """Every metric family, and the nodes that have it."""
    lines = ["| metric | kind | on | description |", "|---|---|---|---|"]
    for nodes, families in (
        ("every node", (*registry.OF_EVERY_NODE, *pages.HOST_FAMILIES)),
        ("nodes with an authorizer", access_metrics.FAMILIES),
        ("controllers", controller_metrics.FAMILIES),
        ("brokers", broker_metrics.FAMILIES),
    ):
        lines += [f"| `{each.name}` | {each.kind} | {nodes} | {each.help} |" for each in families]
    return "\n".join(lines)


TABLES: dict[str, Callable[[dict[str, str]], str]] = {
    "apis": apis_table,
    "settings": settings_table,
    "settings-without-effect": settings_without_effect,
    "metrics": metrics_table,
}


def with_new_tables(text: str, files: dict[str, str]) -> str:
    """The text of a Markdown file with its tables generated again."""

    def make(place: re.Match[str]) -> str:
        if place["name"] not in TABLES:
            raise ValueError(f"no function makes a table named {place['name']!r}")
        return f"{place[1]}\n{TABLES[place['name']](files)}\n\n{place[4]}"

    return PLACE.sub(make, text)


def outdated(files: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Files with outdated tables, and their new content."""
    for path, text in files.items():
        if path.endswith(".md") and (new := with_new_tables(text, files)) != text:
            yield path, new


#: What ends a cell of a table, and what stands for the variable parts of a quoted message.
CELL, VARIES = re.compile(r"(?<!\\)\|"), "…"
#: The break between two literals that Python joins, with its indentation.
BREAK = re.compile(r'"\n\s*f?"')


def first_cells(text: str, header: str) -> list[str]:
    """The first cells of all tables whose first column has this header."""
    cells, is_in_table = [], False
    for line in text.splitlines():
        cell = CELL.split(line)[1].strip() if line.startswith("|") else None
        is_in_table = cell is not None and (is_in_table or cell == header)
        if is_in_table and cell and cell != header and not cell.startswith("---"):
            cells.append(cell)
    return cells


def unknown_messages(quotes: list[str], sources: list[str]) -> list[str]:
    """The quotes that no source has in one literal: their constant parts, in this order."""
    lines = [line for text in sources for line in BREAK.sub("", text).splitlines() if '"' in line]
    return [quote for quote in quotes if not _has(lines, quote.split(VARIES))]


def _has(lines: list[str], parts: list[str]) -> bool:
    longest, pattern = max(parts, key=len), re.compile(".*?".join(map(re.escape, parts)))
    return any(longest in line and pattern.search(line) for line in lines)


def main(arguments: list[str]) -> int:
    is_check = arguments == ["--check"]
    files = repository()
    try:
        new_texts = list(outdated(files))
        page = index.page(files)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if is_check:
        for path, _ in new_texts:
            print(f"{path} is out of date: make docs", file=sys.stderr)
        return 1 if new_texts else 0
    os.makedirs(os.path.dirname(os.path.join(ROOT, index.PAGE)), exist_ok=True)
    for path, new in (*new_texts, (index.PAGE, page)):
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
            file.write(new)
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
