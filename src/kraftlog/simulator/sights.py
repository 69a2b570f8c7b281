"""The rare situations: what many random runs must have seen, or they prove less than it seems."""

from __future__ import annotations

from kraftlog.simulator.fault_kinds import KINDS
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

#: What the mixture must have seen,
OF_THE_MIXTURE = (
    "append of unknown outcome",
    "connection reset",
    "crash between two actions",
    "disk went back to an old copy",
    "disk wiped",
    "leader change",
    "leader resigned",
    "log diverges",
    "message duplicated",
    "message lost",
    "pre-vote refused",
    "read proved by a majority",
    "read refused",
    "stranger refused",
    "sync failed",
    "truncation",
    "unsynced batches lost",
    "vote refused",
    "zombie leader resigned",
    *[f"fault: {kind}" for kind in KINDS],
)
#: and what all scenarios together must.
OF_ALL = (
    *OF_THE_MIXTURE,
    "read at any replica",
    "read given up",
)


def missing(seen: Collection[str], scenario: str = "any") -> list[str]:
    wanted = {"any": OF_ALL, "mixture": OF_THE_MIXTURE}.get(scenario, ())
    return [sight for sight in wanted if sight not in seen]
