"""Writes docs/generated/performance.md, which has a section for each benchmark."""

from __future__ import annotations

import os
import re

PAGE = os.path.join(os.path.dirname(__file__), os.pardir, "docs", "generated", "performance.md")
HEAD = """# Performance

`make bench` writes the figures of this page. Machines differ, and share their cores with other
work: compare the figures of one section with each other, not with those of another day.
"""


def write_section(title: str, text: str, path: str = PAGE) -> None:
    """Replace a section of the file, or append it."""
    page = with_section(_text(path), title, text)
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)


def section(title: str, path: str = PAGE) -> str:
    """A section of the file as it is; empty if there is none."""
    match = _section_pattern(title).search(_text(path))
    return match.group() if match else ""


def _text(path: str) -> str:
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


def _section_pattern(title: str) -> re.Pattern[str]:
    return re.compile(rf"^## {re.escape(title)}\b.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def figure_text(figure: float) -> str:
    """A figure with three significant digits."""
    return f"{figure:,.0f}" if abs(figure) >= 1000 else f"{figure:.3g}"


def with_section(page: str, title: str, text: str) -> str:
    """The page with the section of this title replaced, or appended."""
    page = page or HEAD
    pattern = _section_pattern(title)
    if pattern.search(page):
        return pattern.sub(lambda _: text.rstrip("\n") + "\n\n", page, count=1).rstrip("\n") + "\n"
    return page.rstrip("\n") + "\n\n" + text.rstrip("\n") + "\n"
