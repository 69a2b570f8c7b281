"""A node empties its log before the snapshot that replaces it is renamed into place (Q38)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.runner.quorum_io",
    source=(
        "        self._snapshots.finish(effect.id)  # not retried: "
        "a failed sync may have lost data\n"
        "        log = self._log\n"
        "        self._directory.reserve.use_for("
        "lambda: log.truncate_fully_and_start_at(effect.id.offset))"
    ),
    replacement=(
        "        log = self._log\n"
        "        log.truncate_fully_and_start_at(effect.id.offset)\n"
        "        self._snapshots.finish(effect.id)"
    ),
    scenario="snapshot-crash",
    seed=5,
    nodes=True,
)
