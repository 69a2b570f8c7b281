"""V2: one decision about many partitions makes the same changes as one for each."""

from __future__ import annotations

import pytest

from kraftlog.controller.elections import remove_from_isrs
from kraftlog.controller.partition_change import (
    PartitionChanges,
    PartitionTarget,
    partition_change,
    without,
)
from tests.controller.cluster import Cluster
from tests.controller.test_against_kafka import Case

CASES = 500


@pytest.mark.parametrize("elr", [False, True])
def test_v2_alike_partitions_change_as_each_would_alone(elr: bool) -> None:
    cluster = Cluster(brokers=4, elr=elr)
    topics = [
        cluster.create("a", (1, 2, 3), configs={"min.insync.replicas": "2"}),
        cluster.create("b", (2, 3), configs={"unclean.leader.election.enable": "true"}),
    ]
    changes = PartitionChanges(cluster.state, lambda broker: broker != 1)
    changed = 0
    for seed in range(CASES):
        case = Case(seed)
        if case.elr != elr:
            continue
        for index in (seed, seed + 1):
            before = case.before.replace(topic_id=topics[seed % 2], index=index, directories=())
            wanted = PartitionTarget(isr=without(before.isr, (1,)))
            record = changes.record(before, wanted)
            assert record == partition_change(
                cluster.state, before, wanted, lambda broker: broker != 1
            )
            changed += record is not None
    assert changed > CASES // 4


def test_v2_alike_partitions_are_decided_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The 300 partitions have three orders of replicas, and each order needs one decision."""
    cluster = Cluster(brokers=3)
    cluster.create("t", *[(1, 2, 3), (2, 3, 1), (3, 1, 2)] * 100)
    from kraftlog.controller import partition_change as module

    decided = 0
    decide = module._fields

    def count_decisions(*arguments: object) -> object:
        nonlocal decided
        decided += 1
        return decide(*arguments)  # type: ignore[arg-type]  # all arguments are passed on

    monkeypatch.setattr(module, "_fields", count_decisions)
    records = remove_from_isrs(cluster.state, 1)
    assert (len(records), decided) == (300, 3)
