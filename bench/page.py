"""Writes docs/generated/performance.md, which has a section for each benchmark."""

from __future__ import annotations

import os
import re

PAGE = os.path.join(os.path.dirname(__file__), os.pardir, "docs", "generated", "performance.md")
HEAD = """# Performance

Printed by `make bench`; nothing here was written by hand. Machines differ and share their cores
with others: compare figures of one part with each other, not with those of another day.
"""


def rewrite(title: str, part: str, path: str = PAGE) -> None:
    """Replace a section of the file, or append it."""
    page = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            page = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(put_into(page, title, part))


def shown(figure: float) -> str:
    """A figure with three significant digits."""
    return f"{figure:,.0f}" if abs(figure) >= 1000 else f"{figure:.3g}"


def put_into(page: str, title: str, part: str) -> str:
    """The page with the section of this title replaced, or appended."""
    page = page or HEAD
    of_title = re.compile(rf"^## {re.escape(title)}\b.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    if of_title.search(page):
        return of_title.sub(lambda _: part.rstrip("\n") + "\n\n", page, count=1).rstrip("\n") + "\n"
    return page.rstrip("\n") + "\n\n" + part.rstrip("\n") + "\n"
