"""A random sample of the offsets of tables, and what it says about all of them."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kraftlog.spark.lake_check.plan import Range

#: How sure the bound is.
CONFIDENCE = 0.95


class Sample(NamedTuple):
    """How many offsets to draw. Who must not know them before must not know the seed."""

    draws: int
    seed: int


class Sampled(NamedTuple):
    """A sample that was compared, by ranges: if it is equal, `bound` holds."""

    sample: Sample
    compared: int
    ranges: int

    @property
    def bound(self) -> float:
        """The largest share of offsets that may be in ranges with a difference.

        With a larger share, the chance that no draw hits such a range is less than 5 %.
        """
        return float(1 - (1 - CONFIDENCE) ** (1 / self.sample.draws))

    def data(self) -> dict[str, Any]:
        return {
            "draws": self.sample.draws,
            "seed": self.sample.seed,
            "compared_ranges": self.compared,
            "ranges": self.ranges,
            "confidence": CONFIDENCE,
            "bound": self.bound,
        }

    def text(self) -> str:
        return (
            f"sample: {self.compared:,} of {self.ranges:,} ranges, chosen by "
            f"{self.sample.draws:,} offsets at random (--seed {self.sample.seed})"
        )

    def bound_text(self) -> str:
        return (
            f"with {CONFIDENCE:.0%} confidence, at most {self.bound:.4%} of the offsets are in "
            "ranges with a difference"
        )


def drawn(ranges: Sequence[Range], sample: Sample) -> list[Range]:
    """The ranges that have the drawn offsets; every offset is as likely as every other."""
    ends = list(accumulate(each.end - each.start for each in ranges))
    if not ends or not ends[-1]:
        return []
    random = Random(sample.seed)
    numbers = {bisect_right(ends, random.randrange(ends[-1])) for _ in range(sample.draws)}
    return [ranges[number] for number in sorted(numbers)]
