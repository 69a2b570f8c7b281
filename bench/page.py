"""Writes docs/generated/performance.md, which has a section for each benchmark."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PAGE = os.path.join(os.path.dirname(__file__), os.pardir, "docs", "generated", "performance.md")
HEAD = """# Performance

`make bench` writes the figures of this page in one night. Machines differ, and share their cores
with other work: compare the figures of one section with each other, not with those of another day.
A section names the commit that it has measured, and says so if its code has changed long after.
"""
#: How the lines about a measurement begin, which follow the heading of their section.
MEASURED, STALE, FAILED = "Measured on ", "**Stale: ", "**The last attempt "
_STAMP = rf"(?:(?:{'|'.join(map(re.escape, (MEASURED, STALE, FAILED)))}).*\n)+\n"


def write_section(title: str, text: str, path: str = PAGE) -> None:
    """Replace a main section of the file, or append it."""
    write_page(with_section(read_page(path), title, text), path)


def section(title: str, path: str = PAGE) -> str:
    """A main section of the file as it is; empty if there is none."""
    return part(read_page(path), title, level="##")


def read_page(path: str = PAGE) -> str:
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


def write_page(text: str, path: str = PAGE) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def part(text: str, title: str, level: str = "###") -> str:
    """A section of a text as it is, with its heading; empty if there is none."""
    match = _part_pattern(title, level).search(text)
    return match.group() if match else ""


def _part_pattern(title: str, level: str) -> re.Pattern[str]:
    end = "## " if level == "##" else "##"
    return re.compile(rf"^{level} {_title(title)}\n.*?(?=^{end}|\Z)", re.MULTILINE | re.DOTALL)


def _title(title: str) -> str:
    """The pattern of a heading's text, which may name the command in parentheses."""
    return rf"{re.escape(title)}(?: \(`[^`\n]*`\))?"


def figure_text(figure: float) -> str:
    """A figure with three significant digits."""
    return f"{figure:,.0f}" if abs(figure) >= 1000 else f"{figure:.3g}"


def with_section(page: str, title: str, text: str) -> str:
    """The page with the main section of this title replaced, or appended."""
    page = page or HEAD
    pattern = _part_pattern(title, "##")
    if pattern.search(page):
        return pattern.sub(lambda _: text.rstrip("\n") + "\n\n", page, count=1).rstrip("\n") + "\n"
    return page.rstrip("\n") + "\n\n" + text.rstrip("\n") + "\n"


def in_order(page: str, titles: Sequence[str]) -> str:
    """The page with its head renewed and its main sections in this order; others come last."""
    _, *sections = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    patterns = [re.compile(rf"## {_title(title)}\n") for title in titles]

    def position(text: str) -> int:
        return next((i for i, each in enumerate(patterns) if each.match(text)), len(patterns))

    parts = [HEAD, *sorted(sections, key=position)]
    return "\n\n".join([each.strip("\n") for each in parts]) + "\n"


def with_stamp(page: str, title: str, lines: Iterable[str]) -> str:
    """The page with these lines below the heading of a section, in place of earlier ones."""
    pattern = re.compile(rf"^(##+ {_title(title)}\n\n)(?:{_STAMP})?", re.MULTILINE)
    stamp = "".join([f"{line}\n" for line in lines])
    return pattern.sub(lambda it: it[1] + (f"{stamp}\n" if stamp else ""), page, count=1)
