"""A follower's fetch that diverges counts as its position (KAFKA-13141)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.node.fetch.reader",
    source=(
        "                diverging = _diverging_epoch(node, partition, part)\n"
        "                if diverging is not None:\n"
        "                    return diverging\n"
    ),
    replacement=(
        "                diverging = _diverging_epoch(node, partition, part)\n"
        "                if diverging is not None:\n"
        "                    manager, start = node.replica_manager, part.log_start_offset\n"
        "                    if part.fetch_offset <= partition.written_end:\n"
        "                        manager.in_sync_replicas.fetched(\n"
        "                            partition, *self.follower, part.fetch_offset, start\n"
        "                        )\n"
        "                    return diverging\n"
    ),
    scenario="cluster",
    seed=213,
    test="tests/replication/test_progress.py::test_v7_kafka_13141_diverging_fetch_is_no_progress",
)
