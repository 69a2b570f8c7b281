"""V7, V9, V12: what the high watermark counts, and which responses it completes."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.node.fetch_sessions import INITIAL_EPOCH, NO_SESSION
from kraftlog.wire.messages import metadata_records as records
from tests.replication.broker import LOG, MAX_LAG_MS, MAX_WAIT_MS, TIMEOUT_MS, TOPIC_ID
from tests.replication.cluster import Cluster

#: Longer than any backoff of a fetcher.
LONG_MS = 2_000


def three_replicas(min_isr: int = 1) -> Cluster:
    """Three idle replicas in sync with one record; broker 1 leads in epoch 1."""
    cluster = Cluster({1: "1:a", 2: "1:a", 3: "1:a"}, min_isr=min_isr)
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    assert [cluster[broker_id].high_watermark for broker_id in (1, 2, 3)] == [1, 1, 1]
    return cluster


def test_v7_high_watermark_is_the_minimum_over_the_isr() -> None:
    """V7, C177, C181: each member of the ISR holds it back, a replica outside does not."""
    cluster = three_replicas()
    cluster.isolate(3)
    produced = cluster[1].produce("bc")
    cluster.settle()
    assert (cluster[1].high_watermark, produced.outcome) == (1, None)
    cluster.fail(3)
    assert (cluster[1].high_watermark, produced.outcome) == (3, 0)
    cluster.isolate(2)
    later = cluster[1].produce("d")
    cluster.settle()
    assert (cluster[1].high_watermark, later.outcome) == (3, None)


def test_v24_change_of_the_isr_that_commits_reaches_sessions() -> None:
    """The record leaves the leader alone in the ISR: it commits what was written before.

    No later write tells the follower, nor the consumer that waits in a session.
    """
    cluster = three_replicas()
    cluster.isolate(3)
    leader = cluster[1]
    leader.produce("b")
    cluster.settle()
    begun = leader.fetch(1, session=(NO_SESSION, INITIAL_EPOCH))
    waiting = leader.fetch(1, session=(begun.response.session_id, 1), max_wait_ms=LONG_MS)
    assert (leader.high_watermark, waiting.response) == (1, None)
    cluster.commit(
        *[records.FenceBrokerRecord(id=each, epoch=cluster[each].epoch) for each in (2, 3)],
        records.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=(1,)),
    )
    assert (leader.high_watermark, leader.partition.commits_at_once) == (2, True)
    cluster.settle()
    assert waiting.response.responses[0].partitions[0].high_watermark == 2
    cluster.pass_ms(MAX_WAIT_MS)
    assert cluster[2].high_watermark == 2


def test_v7_acks_all_completes_when_the_last_member_has_the_batch() -> None:
    """V7, C184: a member has a batch once it fetches from after it, not when the batch is sent."""
    cluster = three_replicas()
    cluster.fail(3)
    cluster[2].holds_writes = True
    produced = cluster[1].produce("b")
    cluster.settle()
    assert cluster[2].unwritten, "it has the batch, but has not written it"
    assert (cluster[1].high_watermark, produced.outcome) == (1, None)
    cluster[2].write()
    assert not produced.is_answered, "the leader does not know it yet"
    cluster.settle()
    assert (cluster[1].high_watermark, produced.outcome) == (2, 0)


def test_v7_leader_counts_its_own_written_end() -> None:
    """V7: followers fetch only what the leader has written, and it counts only that."""
    cluster = three_replicas()
    cluster[1].holds_writes = True
    produced = cluster[1].produce("b")
    cluster.settle()
    assert (cluster[1].partition.end, cluster[1].high_watermark) == (2, 1)
    assert cluster[2].log.end == 1
    cluster[1].write()
    cluster.settle()
    assert (cluster[1].high_watermark, produced.outcome) == (2, 0)


def test_v7_leader_alone_in_the_isr_commits_only_what_it_has_written() -> None:
    """V7: no follower counts, and what is not written yet is not committed by any other event."""
    cluster = three_replicas()
    cluster.fail(2)
    cluster.fail(3)
    leader = cluster[1]
    assert (leader.partition.isr, leader.partition.commits_at_once) == ((1,), True)
    leader.holds_writes = True
    produced = leader.produce("b")
    cluster.settle()
    leader.replica_manager.in_sync_replicas.update(leader.partition)
    leader.replica_manager.in_sync_replicas.replicas_changed(leader.partition)
    assert (leader.partition.end, leader.high_watermark, produced.outcome) == (2, 1, None)
    leader.write()
    assert (leader.high_watermark, produced.outcome) == (2, 0)


def test_v7_sole_replica_commits_only_what_it_has_written() -> None:
    cluster = Cluster({1: "1:a"})
    cluster.settle()
    leader = cluster[1]
    leader.holds_writes = True
    produced = leader.produce("b")
    cluster.settle()
    leader.replica_manager.in_sync_replicas.update(leader.partition)
    assert (leader.partition.end, leader.high_watermark, produced.outcome) == (2, 1, None)
    leader.write()
    assert (leader.high_watermark, produced.outcome) == (2, 0)


def test_v7_proposed_isr_members_count_at_once() -> None:
    """V7, C178: while a growing ISR is proposed, its new member holds the high watermark back."""
    cluster = Cluster({1: "1:a", 2: "1:a", 3: "1:a"}, isr=(1, 2))
    cluster.settle()
    assert cluster[1].proposed == [(1, 2, 3)]
    cluster.isolate(3)
    cluster.pass_ms(MAX_LAG_MS // 4)
    produced = cluster[1].produce("b")
    cluster.settle()
    assert (cluster[1].high_watermark, produced.outcome) == (1, None)
    cluster.respond(1, ErrorCode.INELIGIBLE_REPLICA)
    cluster.fence(3)
    cluster.settle()
    cluster.pass_ms(MAX_LAG_MS)
    assert (cluster[1].high_watermark, produced.outcome) == (2, 0)


def test_v7_members_that_are_to_leave_count_until_they_have_left() -> None:
    """V7, C161, C179: the response to AlterPartition does not shrink the ISR; replay does."""
    cluster = three_replicas()
    cluster.isolate(3)
    produced = cluster[1].produce("b")
    cluster.settle()
    cluster.pass_ms(MAX_LAG_MS * 2)
    assert cluster[1].proposed == [(1, 2)]
    assert cluster[1].high_watermark == 1
    cluster.respond(1)
    cluster.settle()
    assert (cluster[1].high_watermark, produced.outcome) == (1, None), "not replayed"
    cluster.set_isr((1, 2))
    assert (cluster[1].high_watermark, produced.outcome) == (2, 0)


def test_v7_leaving_member_counts_beside_a_replica_outside_the_isr() -> None:
    """V7: the committed ISR counts beside a proposed one, not only while all replicas are in it."""
    cluster = Cluster({1: "1:a", 2: "1:a", 3: "1:a"}, isr=(1, 2))
    cluster.settle()
    cluster.respond(1, ErrorCode.INELIGIBLE_REPLICA)
    cluster.isolate(2)
    cluster.isolate(3)
    produced = cluster[1].produce("b")
    cluster.settle()
    cluster.pass_ms(MAX_LAG_MS * 2)
    assert cluster[1].proposed == [(1,)]
    assert (cluster[1].high_watermark, produced.outcome) == (1, None)
    cluster.set_isr((1,))
    assert (cluster[1].high_watermark, produced.outcome) == (2, 0)


def test_v7_leader_alone_commits_only_what_it_has_written() -> None:
    """V7: a follower outside the ISR that has fallen behind counts no more."""
    cluster = Cluster({1: "1:a", 2: "1:a"}, isr=(1,))
    cluster.isolate(2)
    cluster.pass_ms(MAX_LAG_MS * 2)
    cluster[1].holds_writes = True
    produced = cluster[1].produce("b")
    cluster.set_isr((1,))
    assert (cluster[1].partition.end, cluster[1].high_watermark) == (2, 1)
    assert not produced.is_answered
    cluster[1].write()
    cluster.settle()
    assert (cluster[1].high_watermark, produced.outcome) == (2, 0)


def test_v7_replica_about_to_join_is_waited_for() -> None:
    """V7: a caught-up replica outside the ISR counts, or the high watermark would outrun it."""
    cluster = Cluster({1: "1:a", 2: "1:a", 3: "1:a"}, isr=(1, 2))
    cluster.settle()
    cluster.respond(1, ErrorCode.INELIGIBLE_REPLICA)
    assert cluster[1].partition.proposed is None
    cluster[3].holds_writes = True
    cluster[1].produce("b")
    cluster.settle()
    assert cluster[1].high_watermark == 1
    cluster.pass_ms(MAX_LAG_MS + 1)
    cluster.pass_ms(MAX_LAG_MS // 2)
    assert cluster[1].high_watermark == 2, "not for longer than replica.lag.time.max.ms"


def test_v7_fenced_replica_outside_the_isr_is_not_waited_for() -> None:
    """V7, C181: it cannot join."""
    cluster = Cluster({1: "1:a", 2: "1:a", 3: "1:a"}, isr=(1, 2))
    cluster.settle()
    cluster.respond(1, ErrorCode.INELIGIBLE_REPLICA)
    cluster.fence(3)
    cluster[3].holds_writes = True
    cluster[1].produce("b")
    cluster.settle()
    assert cluster[1].high_watermark == 2


def test_v7_kafka_15021_stopping_replica_is_not_waited_for() -> None:
    """V7, C181 (KAFKA-15021): outside the ISR it can no longer join, though it still runs."""
    cluster = Cluster({1: "1:a", 2: "1:a", 3: "1:a"})
    cluster.settle()
    cluster[3].holds_writes = True
    produced = cluster[1].produce("b")
    cluster.settle()
    assert cluster[1].high_watermark == 1
    cluster.commit(
        records.BrokerRegistrationChangeRecord(
            broker_id=3, broker_epoch=cluster[3].epoch, in_controlled_shutdown=1
        )
    )
    cluster.set_isr((1, 2))
    assert (cluster[1].high_watermark, produced.outcome) == (2, 0)


def test_v7_nothing_is_committed_below_min_insync_replicas() -> None:
    """V7: acks=all is refused before the append, and fails after it; the high watermark stands.

    C180.
    """
    cluster = three_replicas(min_isr=2)
    cluster.isolate(2)
    cluster.isolate(3)
    pending = cluster[1].produce("b")
    cluster.settle()
    assert not pending.is_answered
    cluster.set_isr((1,), unseen_by=(2, 3))
    assert pending.outcome == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    refused = cluster[1].produce("c")
    cluster.settle()
    assert refused.outcome == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (cluster[1].high_watermark, cluster[1].log.end) == (1, 2)


def test_v7_high_watermark_moves_again_at_min_insync_replicas() -> None:
    """V7: records appended below min.insync.replicas are committed once the ISR is large enough."""
    cluster = three_replicas(min_isr=2)
    cluster.isolate(2)
    cluster.isolate(3)
    cluster[1].produce("b")
    cluster.set_isr((1,), unseen_by=(2, 3))
    cluster.settle()
    cluster.heal()
    cluster.pass_ms(LONG_MS)
    assert cluster[1].high_watermark == 1, "two replicas have it, but the ISR is too small"
    while cluster[1].isr_requests:
        cluster.accept(1)
        cluster.settle()
    assert (cluster[1].partition.isr, cluster[1].high_watermark) == ((1, 2, 3), 2)


def test_v7_min_isr_counts_the_committed_isr() -> None:
    """V7, C180: a proposed member is no member yet for min.insync.replicas."""
    cluster = Cluster({1: "1:a", 2: "1:a"}, isr=(1,), min_isr=2)
    cluster.settle()
    assert cluster[1].proposed == [(1, 2)]
    assert cluster[1].produce("b").outcome == ErrorCode.NOT_ENOUGH_REPLICAS
    cluster.respond(1)
    assert cluster[1].produce("b").outcome == ErrorCode.NOT_ENOUGH_REPLICAS
    cluster.set_isr((1, 2))
    produced = cluster[1].produce("b")
    cluster.settle()
    assert produced.outcome == 0


def test_v7_min_isr_above_the_replicas_requires_all_of_them() -> None:
    """V7: as in Kafka, min.insync.replicas counts up to the number of replicas."""
    cluster = Cluster({1: "", 2: ""}, min_isr=3)
    produced = cluster[1].produce("a")
    cluster.settle()
    assert produced.outcome == 0


def test_v7_raised_min_isr_holds_the_high_watermark() -> None:
    """V7: raising it also fails waiting requests, as the ISR is now below min.insync.replicas."""
    cluster = three_replicas()
    cluster.isolate(2)
    cluster.set_isr((1, 2), unseen_by=(2, 3))
    pending = cluster[1].produce("b")
    cluster.settle()
    cluster.commit(
        records.ConfigRecord(
            resource_type=2, resource_name="t", name="min.insync.replicas", value="3"
        )
    )
    assert pending.outcome == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert cluster[1].high_watermark == 1


def test_v7_acks_all_times_out_and_the_batch_stays() -> None:
    """V7: the request ends with its timeout; the batch may be committed later."""
    cluster = three_replicas()
    cluster.isolate(3)
    produced = cluster[1].produce("b", timeout_ms=100)
    cluster.settle()
    cluster.pass_ms(100)
    assert produced.outcome == ErrorCode.REQUEST_TIMED_OUT
    cluster.heal()
    cluster.pass_ms(LONG_MS)
    assert cluster[1].high_watermark == 2


def test_v7_high_watermark_never_goes_back_on_a_leader() -> None:
    """V7, C182: neither a member that joins below it nor a new leader epoch lowers it."""
    cluster = three_replicas()
    cluster.fail(3)
    cluster[1].produce("bc")
    cluster.settle()
    assert cluster[1].high_watermark == 3
    cluster.set_isr((1, 2, 3))  # a controller would not: broker 3 is at offset 1
    cluster.settle()
    assert cluster[1].high_watermark == 3
    cluster.elect(1, (1, 2, 3))
    cluster.settle()
    assert cluster[1].high_watermark == 3


def test_v7_followers_high_watermark_is_at_most_their_own_end() -> None:
    """V7: a follower far behind has the leader's high watermark only as far as its log goes.

    C183.
    """
    cluster = Cluster({1: "1:abc", 2: "1:abc", 3: ""}, isr=(1, 2), high_watermarks={1: 3})
    cluster[3].holds_writes = True
    cluster.settle()
    assert (cluster[3].partition.end, cluster[3].high_watermark) == (3, 0)
    cluster[3].write()
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    assert cluster[3].high_watermark == 3


def test_v7_isr_of_one_on_a_follower_moves_nothing() -> None:
    """V7: only a leader computes a high watermark."""
    cluster = three_replicas()
    cluster.fail(2)
    cluster.set_isr((1,))
    cluster[1].produce("b")
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    assert (cluster[1].high_watermark, cluster[2].high_watermark) == (2, 1)
    assert cluster[3].high_watermark == 2


def test_v9_deposed_leader_commits_nothing() -> None:
    """V9: its followers follow another leader, so its new records are dropped.

    C187.
    """
    cluster = three_replicas()
    cluster.isolate(1)
    cluster.elect(2, (2, 3), unseen_by=(1,))
    old = cluster[1].produce("x")
    cluster.settle()
    new = cluster[2].produce("b")
    cluster.settle()
    assert (old.outcome, new.outcome) == (None, 0)
    for _ in range(4):
        cluster.pass_ms(MAX_LAG_MS)
        for code in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_CONTROLLER):
            if cluster[1].isr_requests:
                cluster.respond(1, code)
    assert cluster[1].high_watermark == 1
    assert old.outcome == ErrorCode.REQUEST_TIMED_OUT
    late = cluster[1].produce("y")
    cluster.heal()
    cluster[1].replay()
    cluster.settle()
    assert late.outcome == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.pass_ms(LONG_MS)
    assert cluster.logs() == ["1:a 2:b"] * 3


def test_v9_followers_of_the_new_epoch_prove_nothing_to_the_old_leader() -> None:
    """V9, C255: a fetch in another leader epoch is refused, whatever offset it names."""
    cluster = three_replicas()
    cluster.isolate(3)
    old = cluster[1].produce("x")
    cluster.settle()
    assert cluster[2].log.end == 2
    flight = cluster.flight(2)
    cluster.lose(flight)
    cluster.elect(2, (2, 3), unseen_by=(1, 2))
    cluster[2].replay()
    assert cluster[1].partition.followers is not None
    cluster.elect(1, (1, 2), unseen_by=(1,))
    cluster.heal()
    cluster.isolate(3)
    cluster.pass_ms(LONG_MS)  # broker 2 follows broker 1 in epoch 3, and broker 1 is in epoch 1
    assert cluster[2].partition.leader_epoch == 3
    assert (cluster[1].high_watermark, old.outcome) == (1, None)
    cluster[1].replay()
    cluster.pass_ms(LONG_MS)
    assert cluster[1].high_watermark == 2


def test_v7_requests_pending_at_a_change_of_leader_fail() -> None:
    """V7: an old leader's requests fail when its leadership ends, even if the batch is committed.

    C185.
    """
    cluster = three_replicas()
    cluster.isolate(3)
    pending = cluster[1].produce("b")
    cluster.settle()
    cluster.elect(2, (1, 2))
    assert pending.outcome == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert pending.base_offset == -1
    cluster.pass_ms(LONG_MS)
    assert cluster[2].high_watermark == 2, "and yet the batch is committed"


@pytest.mark.parametrize("holds_writes", [False, True])
def test_v7_requests_pending_at_a_deletion_fail(holds_writes: bool) -> None:
    """V7: whether the batch is written or not, no request waits for a deleted topic."""
    cluster = three_replicas()
    cluster.isolate(3)
    cluster[1].holds_writes = holds_writes
    pending = cluster[1].produce("b")
    cluster.settle()
    cluster.delete_topic(b"t" * 16)
    assert pending.outcome == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert LOG not in cluster[1].logs.by_name
    cluster.pass_ms(TIMEOUT_MS)


def test_v12_fetch_between_high_watermark_and_log_end_is_in_range() -> None:
    """V12: a consumer that knew the old leader's high watermark waits for the new leader's.

    C186.
    """
    cluster = three_replicas()
    cluster[1].produce("b")
    cluster.settle()
    assert [cluster[broker_id].high_watermark for broker_id in (1, 2)] == [2, 1]
    cluster.isolate(1)
    cluster.isolate(3)
    cluster.elect(2, (2, 3))
    assert (cluster[2].high_watermark, cluster[2].partition.end) == (1, 2)
    assert cluster[2].consume(2) == (ErrorCode.NONE, "", 1)
    assert cluster[2].consume(1) == (ErrorCode.NONE, "", 1)
    assert cluster[2].consume(0) == (ErrorCode.NONE, "1:a", 1)
    assert cluster[2].consume(3)[0] == ErrorCode.OFFSET_OUT_OF_RANGE
    cluster.heal()
    cluster.pass_ms(LONG_MS)
    assert cluster[2].consume(1) == (ErrorCode.NONE, "1:b", 2)
