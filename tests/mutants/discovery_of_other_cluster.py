"""An endpoint from another cluster is remembered (R9)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.quorum.discovery",
    source="if response.error_code or core.cluster_id_differs(response.cluster_id):",
    replacement="if response.error_code:",
    test="tests/node/quorum/test_discovery.py::test_r9_a_report_from_another_cluster_is_not_remembered",
)
