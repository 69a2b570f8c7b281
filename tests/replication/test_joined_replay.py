"""V20, V24: what decides about commits is read as of one offset, and its change wakes who waits."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.wire.messages import metadata_records as records
from tests.replication.broker import MAX_WAIT_MS, TOPIC_ID, TOPIC_RESOURCE
from tests.replication.cluster import Cluster


def two_in_sync(min_isr: int = 1) -> Cluster:
    """Brokers 1 (the leader), 2 and 3 in sync with one record; 3 no longer fetches."""
    cluster = Cluster({1: "1:a", 2: "1:a", 3: "1:a"}, min_isr=min_isr)
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    cluster.isolate(3)
    return cluster


def shrunk_isr(*isr: int) -> Any:
    return records.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=isr)


def min_isr(value: int) -> Any:
    return records.ConfigRecord(
        resource_type=TOPIC_RESOURCE,
        resource_name="t",
        name="min.insync.replicas",
        value=str(value),
    )


def fenced(cluster: Cluster, broker_id: int) -> Any:
    return records.FenceBrokerRecord(id=broker_id, epoch=cluster[broker_id].epoch)


def test_v24_fenced_follower_releases_waiting_batches() -> None:
    """V24: the batch that fences a follower takes it out of the ISR first; no traffic is needed."""
    cluster = two_in_sync()
    produced = cluster[1].produce("b")
    cluster.settle()
    assert not produced.is_answered, "broker 3 is in the ISR, and does not have it"
    cluster.commit(shrunk_isr(1, 2), fenced(cluster, 3))
    assert (cluster[1].high_watermark, produced.outcome) == (2, 0)


def test_v24_unregistered_follower_releases_waiting_batches() -> None:
    """V24: a follower outside the ISR that is unregistered is not waited for."""
    cluster = two_in_sync()
    produced = cluster[1].produce("b")
    cluster.settle()
    cluster.commit(shrunk_isr(1, 2))
    cluster.settle()
    cluster.respond(1, ErrorCode.INELIGIBLE_REPLICA)  # the leader has proposed that 3 joins
    assert not produced.is_answered, "broker 3 is alive, and caught up lately: it may join"
    cluster.commit(
        records.UnregisterBrokerRecord(broker_id=3, broker_epoch=cluster[3].epoch),
    )
    assert (cluster[1].high_watermark, produced.outcome) == (2, 0)


def test_v24_refused_proposal_releases_waiting_batches() -> None:
    """V24: only the proposal still counts the fenced broker 3, so its refusal is what ends that."""
    cluster = two_in_sync()
    cluster.commit(shrunk_isr(1, 2))
    cluster.settle()  # the leader has proposed that 3 joins
    produced = cluster[1].produce("b")
    cluster.settle()
    cluster.commit(fenced(cluster, 3))
    assert not produced.is_answered, "the controller may have accepted the proposal"
    cluster.respond(1, ErrorCode.INELIGIBLE_REPLICA)
    assert (cluster[1].high_watermark, produced.outcome) == (2, 0)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_v20_raised_min_isr_counts_for_an_isr_of_the_same_replay(order: tuple[int, ...]) -> None:
    """V20: one replay raises the minimum and shrinks the ISR, in any order: nothing is committed.

    The follower that leaves is eligible as leader, and lacks the record.
    """
    cluster = two_in_sync()
    cluster.isolate(2)
    produced = cluster[1].produce("b")
    cluster.settle()
    changes = [min_isr(2), shrunk_isr(1), fenced(cluster, 2)]
    cluster.commit(fenced(cluster, 3), *[changes[place] for place in order])
    assert cluster[1].high_watermark == 1
    assert produced.outcome == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_v20_lowered_min_isr_commits_after_the_batch() -> None:
    """V20, V24: the lower minimum completes what waits, also if it precedes the smaller ISR."""
    cluster = two_in_sync(min_isr=3)
    produced = cluster[1].produce("b")
    cluster.settle()
    cluster.commit(min_isr(2), shrunk_isr(1, 2), fenced(cluster, 3))
    assert (cluster[1].high_watermark, produced.outcome) == (2, 0)


def test_v20_nothing_is_committed_in_the_midst_of_a_batch() -> None:
    """V20: a fetch between two steps of a replay does not move the high watermark."""
    cluster = two_in_sync(min_isr=2)
    cluster[2].holds_writes = True
    produced = cluster[1].produce("b")
    cluster.settle()
    leader = cluster[1]
    replay = leader.loader.replay_in_steps(
        [shrunk_isr(1, 2), fenced(cluster, 3), min_isr(3), min_isr(2)]
    )
    next(replay)  # the ISR is replayed; the minimum is not yet 3, nor 2 again
    cluster[2].write()
    cluster.settle()
    assert leader.partition.followers is not None
    assert leader.partition.followers.by_broker[2].end == 2, "it has fetched"
    assert (leader.high_watermark, produced.outcome) == (1, None)
    for _ in replay:
        pass
    assert (leader.high_watermark, produced.outcome) == (2, 0)


def test_v20_sole_replica_waits_for_the_batch_too() -> None:
    """V20: also a leader that commits with its own write alone does so as of the batch's end."""
    cluster = Cluster({1: "1:a"})
    cluster.settle()
    leader = cluster[1]
    replay = leader.loader.replay_in_steps([min_isr(2)])
    next(replay)
    produced = leader.produce("b")
    cluster.settle()
    assert (leader.high_watermark, produced.outcome) == (1, None)
    for _ in replay:
        pass
    assert (leader.high_watermark, produced.outcome) == (2, 0)


def test_v20_snapshot_decides_as_a_whole() -> None:
    """V20: an installed snapshot with a smaller ISR and a higher minimum commits nothing."""
    cluster = two_in_sync()
    cluster.isolate(2)
    produced = cluster[1].produce("b")
    cluster.settle()
    cluster.commit(
        fenced(cluster, 3), shrunk_isr(1), fenced(cluster, 2), min_isr(2), unseen_by=(1,)
    )
    cluster[1].loader.install(cluster[2].image)
    assert cluster[1].high_watermark == 1
    assert produced.outcome == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
