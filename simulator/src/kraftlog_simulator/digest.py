"""The digest of a run: equal for two runs if all that happened in them is equal."""

from __future__ import annotations

import hashlib

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.run import simulate

if TYPE_CHECKING:
    from collections.abc import Collection

    from kraftlog_simulator.run import Outcome


def simulate_with_digest(
    scenario: str, seed: int, *, kinds: Collection[str] | None = None, nodes: bool = False
) -> tuple[Outcome, str]:
    """Run a scenario; the digest is of every line of its trace and of its outcome."""
    digest = hashlib.blake2b(digest_size=8)
    outcome = simulate(
        scenario, seed, kinds=kinds, nodes=nodes, trace=lambda line: digest.update(line.encode())
    )
    digest.update(str(outcome).encode())
    return outcome, digest.hexdigest()
