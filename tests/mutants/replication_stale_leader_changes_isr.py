"""The controller accepts AlterPartition of former leaders and of older epochs (V9)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.controller.isr",
    source=(
        "    if epochs[0] < known[0]:\n"
        "        return ErrorCode.FENCED_LEADER_EPOCH\n"
        "    if asker != partition.leader:\n"
        "        return ErrorCode.INVALID_REQUEST\n"
        "    if epochs[1] < known[1]:\n"
        "        return ErrorCode.INVALID_UPDATE_VERSION\n"
    ),
    replacement="",
    scenario="cluster",
    seed=34,
)
