"""The JoinGroup of the last member does not complete the rebalance: its timeout does (V24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.groups.rebalance",
    source=(
        "        prepare(shard, group, now)\n"
        "    else:\n"
        "        maybe_complete(shard, group, now)\n"
        "\n"
        "\n"
        "def members_left"
    ),
    replacement=("        prepare(shard, group, now)\n\n\ndef members_left"),
    scenario="cluster",
    seed=3,
)
