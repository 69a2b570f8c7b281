"""Random numbers for a simulated world: one seeded generator per concern, integers only.

Concerns are independent: a fault that is dropped from a plan does not change the workload.
"""

from __future__ import annotations

from random import Random

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    T = TypeVar("T")


class Rng:
    """Uses only `getrandbits`, whose results do not depend on Python's version."""

    __slots__ = ("bits",)

    def __init__(self, seed: int, concern: str) -> None:
        self.bits = Random(f"{seed}/{concern}").getrandbits

    def below(self, limit: int) -> int:
        """0 to `limit` - 1."""
        return self.bits(32) * limit >> 32

    def between(self, low: int, high: int) -> int:
        """Both ends included."""
        return low + (self.bits(32) * (high - low + 1) >> 32)

    def permille(self, probability: int) -> bool:
        """Whether an event of this probability, in thousandths, happens."""
        return probability > 0 and self.bits(32) * 1000 >> 32 < probability

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def long_tail(self, mean: int) -> int:
        """Usually at most `mean`, sometimes many times as much."""
        length = self.below(mean + 1)
        while self.bits(2) == 0 and length < mean << 6:
            length = length * 2 + mean
        return length

    def some(self, choices: Sequence[T], count: int) -> list[T]:
        """`count` different items, or all if there are fewer, in their order in `choices`."""
        left = list(range(len(choices)))
        chosen = [left.pop(self.below(len(left))) for _ in range(min(count, len(left)))]
        return [choices[index] for index in sorted(chosen)]
