"""Every measured figure in README.md and docs/ is one that the performance page has."""

from __future__ import annotations

import os
import re
import tomllib
from typing import TYPE_CHECKING

import pytest
from bench.page import part, read_page

from bench import stamps
from tests.house_rules import repository

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBER = r"(?<![\w.,/-])\d[\d,]*(?:\.\d+)?"
#: Rates, costs and ratios, which are measurements, and times and sizes, which may be limits.
MEASURED = re.compile(
    rf"{NUMBER}(?: to [\d.,]+)? ?(?:"
    r"\w*/s\b|[MG]B/s|s/GB|s/CPU-s|\w+/CPU-h|µs|×|times (?:as|more|less|faster|slower)"
    r"|(?:records|rows|requests|commits|changes|events) a second)"
)
TIME_OR_SIZE = re.compile(rf"{NUMBER} ?(?:ms|s|MB|GB)\b(?!/)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
README = "README.md"
with open(os.path.join(os.path.dirname(__file__), "quoted.toml"), "rb") as _file:
    QUOTED: dict[str, dict[str, str]] = tomllib.load(_file)


def pages() -> Iterator[str]:
    """README.md and the pages of docs/, except generated ones and what was once decided."""
    for path in repository():
        if path == README or re.match(r"docs/(?!generated/|decisions/).*\.md$", path):
            yield path


def figures(text: str, *, is_strict: bool) -> set[str]:
    """The figures of a text outside code; times and sizes in integers only if strict."""
    text = CODE.sub("", text)
    small = [it for it in TIME_OR_SIZE.findall(text) if is_strict or "." in it.split()[0]]
    return {*MEASURED.findall(text), *small}


def unquoted(path: str, text: str, quoted: dict[str, str]) -> list[str]:
    """The figures of a page that the list lacks, and those of the list that the page lacks."""
    found = figures(text, is_strict=path == README)
    return [
        *[f"{path}: {each!r} is not in quoted.toml" for each in sorted(found - set(quoted))],
        *[f"{path} has no {each!r}" for each in quoted if each not in text],
    ]


def cell(page: str, section: str, row: str, column: str) -> tuple[str, str]:
    """A figure of the performance page as it is there, and its unit."""
    text = part(page, section) or part(page, section, "##")
    names: list[str] = []
    for line in text.splitlines():
        cells = [each.strip() for each in line.strip("|").split("|")]
        names = cells if line.startswith(("| |", "| what")) else names
        if cells[0].replace("`", "") == row and column in names:
            return cells[names.index(column)], cells[names.index("unit")]
    raise ValueError(f"the page has no {column!r} in {row!r} of {section!r}")


def mismatch(page: str, quote: str, place: str) -> str:
    """How a quoted figure differs from the page; empty if it is the same, or the same rounded."""
    if place.startswith("- "):
        return ""
    section, row, column, *digits = place.split(" | ")
    try:
        figure, unit = cell(page, section, row, column)
    except ValueError as error:
        return f"{quote!r}: {error}"
    number, _, quoted_unit = (digits[0] if digits else quote).partition(" ")
    if quoted_unit == unit and number == rounded(figure, number):
        return ""
    return f"{quote!r}: the page has {figure} {unit}"


def rounded(figure: str, like: str) -> str:
    """A figure rounded to the significant digits of another one."""
    digits = len(like.replace(",", "").replace(".", "").strip("0"))
    number = float(f"{float(figure.replace(',', '')):.{max(1, digits)}g}")
    decimals = len(like.partition(".")[2])
    return f"{number:,.{decimals}f}"


def test_every_measured_figure_is_listed() -> None:
    texts = repository()
    problems = [it for path in pages() for it in unquoted(path, texts[path], QUOTED.get(path, {}))]
    assert problems == []
    assert set(QUOTED) <= set(pages())


def test_every_listed_figure_is_the_one_of_the_page() -> None:
    page = read_page()
    pairs = [pair for quotes in QUOTED.values() for pair in quotes.items()]
    assert [it for quote, place in pairs if (it := mismatch(page, quote, place))] == []


def test_the_readme_names_the_kafka_that_was_measured() -> None:
    measured = stamps.load(stamps.STORE).measured
    names = ("start", "produce", "latency", "quorum")
    [kafka] = {measured[f"beside {name}"].kafka for name in names}
    assert f"beside Kafka {kafka} with its default scripts" in repository()[README]


PAGE = """\
# P

## A (`python`)

| what | figure | unit |
|---|---:|---|
| a `b` | 1,234 | ms |

## B

### C

| | unit | Kafka | kraftlog | |
|---|---|---:|---:|---|
| d | MB | 20.7 | 0.303 | x |
"""


@pytest.mark.parametrize(
    ("quote", "place", "expected"),
    [
        ("1,234 ms", "A | a b | figure", ""),
        ("1,200 ms", "A | a b | figure", ""),
        ("1,235 ms", "A | a b | figure", "the page has 1,234 ms"),
        ("1,234 s", "A | a b | figure", "the page has 1,234 ms"),
        ("a second", "A | a b | figure | 1,000 ms", ""),
        ("21 MB", "C | d | Kafka", ""),
        ("20 MB", "C | d | Kafka", ""),
        ("22 MB", "C | d | Kafka", "the page has 20.7 MB"),
        ("0.303 MB", "C | d | kraftlog", ""),
        ("0.31 MB", "C | d | kraftlog", "the page has 0.303 MB"),
        ("0.303 MB", "C | d | bare", "the page has no 'bare' in 'd' of 'C'"),
        ("0.303 MB", "D | d | kraftlog", "the page has no 'kraftlog' in 'd' of 'D'"),
        ("7 MB", "- a limit", ""),
    ],
)
def test_a_figure_is_compared_with_its_place(quote: str, place: str, expected: str) -> None:
    found = mismatch(PAGE, quote, place)
    assert expected in found
    assert bool(found) == bool(expected)


def test_a_figure_that_is_not_listed_is_found() -> None:
    text = (
        "It takes 5 ms, 2.5 ms or 3 µs, `9 µs` apart: 1,000 records/s, 2× and 9 to 18 times more.\n"
    )
    expected = {"2.5 ms", "3 µs", "1,000 records/s", "2×", "9 to 18 times more"}
    assert figures(text, is_strict=False) == expected
    assert figures(text, is_strict=True) == expected | {"5 ms"}
    listed = dict.fromkeys((*expected, "4 µs"), "")
    assert unquoted("docs/a.md", text, listed) == ["docs/a.md has no '4 µs'"]
    del listed["2×"], listed["4 µs"]
    assert unquoted("docs/a.md", text, listed) == ["docs/a.md: '2×' is not in quoted.toml"]
