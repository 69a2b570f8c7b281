"""The size of a measurement: full for the page, or small for a trial."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Plan:
    #: The fraction of the full number of records or requests.
    scale: float = 1.0
    rounds: int = 5
    #: How long a peer is under load before it is measured.
    warm_s: float = 12
    #: How long an idle peer is left alone, and then measured.
    settle_s: float = 15
    rest_s: float = 30
    #: How long a peer is under load before its memory is measured.
    load_s: float = 300
    #: How long concurrent metadata changes are measured.
    commit_s: float = 5
    #: Whether memory is held and filled first, see recycled.py.
    with_recycling: bool = True

    @property
    def is_full(self) -> bool:
        """Whether the figures may be quoted. `load_s` may differ, as the page states it."""
        return self == replace(Plan(), load_s=self.load_s)

    def count(self, full: int, minimum: int = 20) -> int:
        return max(minimum, int(full * self.scale))


QUICK = Plan(
    scale=0.05, rounds=2, warm_s=2, settle_s=1, rest_s=2, load_s=4, commit_s=1, with_recycling=False
)
