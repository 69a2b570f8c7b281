"""Reduces a failing run to faults of which none can be dropped without losing the failure."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.run import simulate

if TYPE_CHECKING:
    from collections.abc import Collection

    from kraftlog_simulator.run import Outcome


def shrink(
    failing: Outcome, kinds: Collection[str] | None = None, *, nodes: bool = False
) -> Outcome:
    """Drop faults, many at once at first, then one by one; return the last run that failed.

    `kinds` (of faults) and `nodes` (whether replicas are whole nodes) are those of the failing run.
    """
    kept = [fault.number for fault in failing.plan]
    best, size = failing, max(len(kept) // 2, 1)
    while kept:
        is_smaller = False
        for first in range(0, len(kept), size):
            fewer = kept[:first] + kept[first + size :]
            outcome = simulate(failing.scenario, failing.seed, kinds=kinds, keep=fewer, nodes=nodes)
            if outcome.failed and outcome.violation.invariant == failing.violation.invariant:
                best, kept, is_smaller = outcome, fewer, True
                break
        if not is_smaller:
            if size == 1:
                break
            size = max(size // 2, 1)
    return best
