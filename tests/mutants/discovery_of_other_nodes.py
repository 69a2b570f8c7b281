"""Nodes that are neither voters nor targets are remembered (R9)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.quorum.known_nodes",
    source="        if members:\n            return node_id in members\n        has_room",
    replacement="        has_room",
    test="tests/node/quorum/test_known_nodes.py::test_r9_only_other_members_are_remembered",
)
