"""The numbers of functions that docs/architecture.md quotes are those that `bench.hops` counts."""

from __future__ import annotations

from pathlib import Path

from bench.hops import ways

from tests.house_rules import ROOT

QUOTED = (
    "{} for CreateTopics, {} for a Produce and {} for a consumer's Fetch, "
    "{} and {} when these are repeated."
)


def test_the_quoted_numbers_of_functions_are_the_counted_ones() -> None:
    hops = {what: way.hops for what, way in ways()}
    order = (
        "CreateTopics",
        "Produce, first",
        "Fetch, first",
        "Produce, repeated",
        "Fetch, repeated",
    )
    text = Path(ROOT, "docs/architecture.md").read_text(encoding="utf-8")
    assert QUOTED.format(*[hops[what] for what in order]) in text, hops
