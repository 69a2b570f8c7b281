"""A committed assignment answers only the SyncGroup of the group's leader (V24)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.groups.members",
    source=(
        "            if member.syncing is not None:\n"
        "                shard.respond(take_syncing(member), _assignment(group, member))"
    ),
    replacement=(
        "            if member.syncing is not None and group.leader == member.member_id:\n"
        "                shard.respond(take_syncing(member), _assignment(group, member))"
    ),
    scenario="cluster",
    seed=3,
)
