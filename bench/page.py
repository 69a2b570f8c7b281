"""docs/performance.md: a part for each bench, each rewritten by itself when it is measured."""

from __future__ import annotations

import re

HEAD = """# Performance

Printed by `make bench`; nothing here was written by hand. Machines differ and share their cores
with others: compare figures of one part with each other, not with those of another day.
"""


def put_into(page: str, title: str, part: str) -> str:
    """The page with a part in place of the one of that title, or behind the others."""
    page = page or HEAD
    of_title = re.compile(rf"^## {re.escape(title)}\b.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    if of_title.search(page):
        return of_title.sub(lambda _: part.rstrip("\n") + "\n\n", page, count=1).rstrip("\n") + "\n"
    return page.rstrip("\n") + "\n\n" + part.rstrip("\n") + "\n"
