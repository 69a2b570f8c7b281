"""`Family`: a metric family with its samples."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from kraftlog.types import Now

    #: Pairs of name and value; empty for a sample without labels.
    Labels = tuple[tuple[str, str], ...]
    Samples = Iterable[tuple[Labels, float]]

COUNTER, GAUGE, UNTYPED = "counter", "gauge", "untyped"


class Family(Value):
    """`measure(node, now)` returns the current samples."""

    name: str
    kind: str
    help: str
    measure: Callable[[Any, Now], Samples]


def single(name: str, kind: str, help_text: str, value: Callable[[Any, Now], float]) -> Family:
    """A family of one sample without labels."""
    return Family(name, kind, help_text, lambda node, now: [((), value(node, now))])
