"""How much is measured: in full for the page, or a little of everything to try it out."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Plan:
    """`scale` shrinks what is sent; the rest are rounds and seconds."""

    scale: float = 1.0
    rounds: int = 5
    warm_s: float = 12
    settle_s: float = 15
    rest_s: float = 30
    load_s: float = 300
    commit_s: float = 5
    with_recycling: bool = True

    @property
    def is_full(self) -> bool:
        """Whether its figures may be quoted; how long memory is under load is said beside it."""
        return self == replace(Plan(), load_s=self.load_s)

    def count(self, full: int, least: int = 20) -> int:
        return max(least, int(full * self.scale))


QUICK = Plan(
    scale=0.05, rounds=2, warm_s=2, settle_s=1, rest_s=2, load_s=4, commit_s=1, with_recycling=False
)
