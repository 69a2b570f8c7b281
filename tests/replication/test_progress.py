"""V7, V8: what counts as progress of a follower, and what does not."""

from __future__ import annotations

from kraftlog.replication.followers import Follower
from tests.replication.broker import MAX_LAG_MS, MAX_WAIT_MS, TOPIC_ID
from tests.replication.cluster import Cluster
from tests.replication.memory_log import make_batch
from tests.replication.test_fetching import named_partitions, respond_with, two_replicas

#: Longer than any backoff of a fetcher.
LONG_MS = 2_000


def test_v7_proposed_member_counts_however_long_it_lags() -> None:
    """V7: the controller may have accepted the proposal, so only its outcome ends the wait.

    C178.
    """
    cluster = Cluster({1: "1:a", 2: "1:a", 3: "1:a"}, isr=(1, 2))
    cluster.settle()
    assert cluster[1].proposed == [(1, 2, 3)]
    cluster.isolate(3)
    produced = cluster[1].produce("b")
    for _ in range(3):
        cluster.pass_ms(MAX_LAG_MS)
    assert cluster[1].high_watermark == 1
    assert produced.outcome != 0


def test_v7_kafka_13141_diverging_fetch_is_no_progress() -> None:
    """V7, C256 (KAFKA-13141): not all records below its fetch offset are the leader's."""
    cluster = Cluster({1: "1:a 3:xyz", 2: "1:ab"}, epoch=3)
    cluster[2].holds_truncations = True
    cluster.settle()
    assert [truncation.offset for truncation in cluster[2].untruncated] == [1]
    assert cluster[1].high_watermark == 0


def test_v7_fetch_out_of_range_is_no_progress() -> None:
    """V7: an offset above the leader's end proves nothing of what is below it."""
    cluster = Cluster({1: "2:xy", 2: ""}, epoch=3, starts={2: 10})
    cluster[2].holds_truncations = True
    cluster.settle()
    assert cluster[1].high_watermark == 0


def test_v9_fetch_of_a_newer_epoch_is_no_progress() -> None:
    """V9, C255: a re-elected leader ignores fetches in its new epoch until it has replayed it."""
    cluster = two_replicas()
    cluster[1].produce("b")
    cluster.run_turns()
    cluster.complete(cluster.flight(2))
    cluster[2].turn()
    assert named_partitions(cluster) == [(0, 2)]
    cluster.lose(cluster.flight(2))
    cluster.elect(1, (1, 2), unseen_by=(1,))
    cluster.pass_ms(LONG_MS)
    assert cluster[1].high_watermark == 1
    cluster[1].replay()
    cluster.pass_ms(LONG_MS)
    assert cluster[1].high_watermark == 2


def test_v7_unwritten_records_are_not_fetched() -> None:
    """V7: else a follower might keep records that its leader loses in a crash."""
    cluster = two_replicas()
    cluster[1].holds_writes = True
    cluster[1].produce("b")
    cluster.settle()
    cluster.lose(cluster.flight(2))  # the next request names everything
    cluster.pass_ms(MAX_WAIT_MS)
    assert cluster.logs() == ["1:ab", "1:a"]


def test_v7_followers_high_watermark_and_start_stay_within_its_log() -> None:
    """V7: the leader's high watermark and start may be far beyond the follower's end."""
    cluster = two_replicas()
    partition = cluster[2].partition
    partition.note_leader_offsets(10, 10)
    cluster[2].replica_manager.fetchers.follow_leader(partition)
    assert (partition.high_watermark, partition.start) == (1, 1)


def test_v7_lag_is_the_number_of_committed_records_not_yet_written() -> None:
    """V7: a follower's lag is counted up to the leader's high watermark; a leader has none."""
    cluster = Cluster({1: "1:abc", 2: "1:abc", 3: ""}, isr=(1, 2), high_watermarks={1: 3})
    cluster[3].holds_writes = True
    cluster.settle()
    assert [cluster[broker_id].partition.lag for broker_id in (1, 2, 3)] == [0, 0, 3]
    cluster[3].write()
    cluster.settle()
    assert cluster[3].partition.lag == 0
    cluster[2].partition.note_leader_offsets(10, 0)
    cluster.elect(2, (1, 2))
    cluster.settle()
    assert cluster[2].partition.lag == 0


def test_v8_follower_does_not_join_below_the_high_watermark() -> None:
    """V8, C159: it is past the epoch's start, but below the records committed since."""
    cluster = Cluster({1: "1:a", 2: "1:a", 3: "1:a"})
    cluster.settle()
    cluster.fail(3)
    cluster[1].produce("bc")
    cluster.settle()
    cluster.heal()
    cluster.unfence(3)
    cluster[3].holds_writes = True
    cluster.pass_ms(LONG_MS)
    assert (cluster[1].high_watermark, cluster[1].proposed) == (3, [])
    cluster[3].write()
    cluster.settle()
    assert cluster[1].proposed == [(1, 2, 3)]


def test_v8_follower_at_the_end_of_its_previous_fetch_was_caught_up_then() -> None:
    """V8, C167: a follower that is always one append behind thus stays in the ISR."""
    follower = Follower(2, caught_up_ms=0, leader_bytes=0)
    for end, caught_up_ms in ((1, 0), (2, 1000), (3, 2000)):
        follower.fetched(1, end, 0, leader_end=end + 1, leader_bytes=0, now_ms=end * 1000)
        assert follower.caught_up_ms == caught_up_ms
    assert follower.keeps_up(leader_end=4, now_ms=12_000, max_lag_ms=10_000)
    assert not follower.keeps_up(leader_end=4, now_ms=12_001, max_lag_ms=10_000)


def test_v7_a_followers_end_may_fall() -> None:
    """V7: a follower that has truncated its log lacks what it had fetched."""
    follower = Follower(2, caught_up_ms=0, leader_bytes=0)
    for end in (5, 3):
        follower.fetched(1, end, 0, leader_end=5, leader_bytes=0, now_ms=0)
        assert follower.end == end


def test_v8_accepted_proposal_is_not_repeated() -> None:
    """V8: after the response it counts as before, until replay shows the new ISR."""
    cluster = Cluster({1: "1:a", 2: "1:a"}, isr=(1,))
    cluster.settle()
    cluster.respond(1)
    for _ in range(4):
        cluster.pass_ms(MAX_LAG_MS // 2)
    assert cluster[1].proposed == []
    assert cluster[1].partition.maximal_isr == (1, 2)


def test_v8_same_partition_epoch_ends_no_proposal() -> None:
    """V8: a snapshot with the state that the proposal changes is no outcome."""
    cluster = Cluster({1: "1:a", 2: "1:a"}, isr=(1,))
    cluster.settle()
    cluster[1].partition.assign(cluster[1].image.partitions[TOPIC_ID, 0])
    assert cluster[1].partition.maximal_isr == (1, 2)


def test_v6_response_below_the_fetch_offset_is_not_appended() -> None:
    cluster = two_replicas()
    respond_with(cluster, bytes(make_batch("z", base=0, epoch=1)))
    assert cluster.logs()[1] == "1:a"
    assert any("where 1 is next" in line for line in cluster[2].lines)


def test_v6_part_of_one_batch_is_fetched_again_at_once() -> None:
    """A response without a whole batch is no error."""
    cluster = two_replicas()
    respond_with(cluster, bytes(make_batch("z", base=1, epoch=1)[:-5]))
    assert (named_partitions(cluster), cluster[2].lines) == ([(0, 1)], [])


def test_v23_a_follower_whose_position_falls_begins_to_lag() -> None:
    """V8: it leaves the ISR after the longest lag, though nothing is written, and not before."""
    cluster = two_replicas()
    leader = cluster[1]
    cluster.pass_ms(3 * MAX_LAG_MS)
    assert leader.proposed == []
    followers = leader.partition.followers
    assert followers is not None
    [follower] = followers.by_broker.values()
    in_sync = leader.replica_manager.in_sync_replicas
    cluster.isolate(2)
    in_sync.fetched(leader.partition, 2, follower.broker_epoch, 0, 0)
    cluster.pass_ms(MAX_LAG_MS // 2)
    assert leader.proposed == []
    cluster.pass_ms(MAX_LAG_MS)
    assert leader.proposed == [(1,)]
