"""V6, V13: what followers fetch, which batches they append, and when they back off."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.records.header import read_header
from kraftlog.wire.messages import metadata_records as records
from kraftlog.wire.messages.fetch import EpochEndOffset
from tests.replication.broker import LOG, MAX_LAG_MS, MAX_WAIT_MS, TOPIC_ID
from tests.replication.cluster import Cluster, topic_records
from tests.replication.memory_log import make_batch

#: Longer than any backoff of a fetcher.
LONG_MS = 2_000
LONGEST_BACKOFF_MS = 1_000
OTHER_ID = b"u" * 16


def two_replicas(leader: str = "1:a", follower: str = "1:a") -> Cluster:
    """Two idle replicas in sync; broker 1 leads in epoch 1. The arguments are their logs."""
    cluster = Cluster({1: leader, 2: follower})
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    return cluster


def named_partitions(cluster: Cluster) -> list[tuple[int, int]]:
    """Each partition in the fetch request of broker 2, with its offset."""
    return [
        (part.partition, part.fetch_offset)
        for topic in cluster.flight(2).request.topics
        for part in topic.partitions
    ]


def forgotten_partitions(cluster: Cluster) -> list[int]:
    return [
        index
        for topic in cluster.flight(2).request.forgotten_topics_data
        for index in topic.partitions
    ]


def add_partition(cluster: Cluster, index: int) -> None:
    *_, record = topic_records(TOPIC_ID, (1, 2), (1, 2), 1, 1)
    record.partition_id = index
    cluster.commit(record)


# Sessions ----------------------------------------------------------------------------------------


def test_v13_request_names_only_partitions_that_changed() -> None:
    """A session with two partitions: an append to one names that one."""
    cluster = two_replicas()
    add_partition(cluster, 1)
    cluster.settle()
    cluster[1].produce("b")
    cluster.run_turns()
    cluster.complete(cluster.flight(2))
    cluster.run_turns()
    assert named_partitions(cluster) == [(0, 2)]


def test_v13_partition_that_a_fetch_does_not_name_is_not_fetched() -> None:
    """V8: a fetch in a session is no fetch of the partitions that it does not name."""
    cluster = two_replicas()
    add_partition(cluster, 1)
    cluster.settle()
    followers = cluster[1].replica_manager.partitions[TOPIC_ID, 1].followers
    assert followers is not None
    fetched_ms = followers.by_broker[2].fetched_ms
    for letter in "bcd":
        cluster[1].produce(letter)
        cluster.pass_ms(MAX_WAIT_MS)
    assert followers.by_broker[2].fetched_ms == fetched_ms
    followers_of_first = cluster[1].partition.followers
    assert followers_of_first is not None
    assert followers_of_first.by_broker[2].fetched_ms > fetched_ms


def test_v13_dropped_session_is_begun_again_at_once() -> None:
    """The leader has evicted the session: the next request names all partitions, without backoff.

    C197.
    """
    cluster = two_replicas()
    session_id = cluster.flight(2).request.session_id
    cluster[1].fetch_sessions.drop(session_id)
    cluster.pass_ms(MAX_WAIT_MS)
    produced = cluster[1].produce("b")
    cluster.settle()
    assert produced.outcome == 0
    assert cluster.flight(2).request.session_id not in (0, session_id)


def test_v13_lost_connection_begins_another_session() -> None:
    """C197: the leader may have handled the request or not, so all partitions are named again."""
    cluster = two_replicas()
    cluster.lose(cluster.flight(2))
    cluster.advance(10)
    cluster.run_turns()
    assert cluster.flight(2).request.session_epoch == 0
    assert named_partitions(cluster) == [(0, 1)]
    produced = cluster[1].produce("b")
    cluster.settle()
    assert produced.outcome == 0


def test_v13_refused_partition_is_forgotten_and_added_again() -> None:
    """C191: a partition that the leader refuses is left out for a while, and the others go on."""
    cluster = two_replicas()
    add_partition(cluster, 1)
    cluster.settle()
    cluster.elect(1, (1, 2), unseen_by=(1,))  # broker 1 does not know of epoch 2
    cluster.pass_ms(MAX_WAIT_MS)
    assert (named_partitions(cluster), forgotten_partitions(cluster)) == ([], [0])
    other = cluster[1].replica_manager.partitions[TOPIC_ID, 1]
    assert other.followers is not None
    assert other.followers.by_broker[2].end == 0
    cluster[1].replay()
    cluster.pass_ms(LONG_MS)
    produced = cluster[1].produce("b")
    cluster.settle()
    assert (produced.outcome, forgotten_partitions(cluster)) == (0, [])


def test_v13_partition_moved_off_the_follower_leaves_the_session() -> None:
    cluster = two_replicas()
    add_partition(cluster, 1)
    cluster.settle()
    cluster.commit(
        records.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, replicas=(1,), isr=(1,))
    )
    cluster.pass_ms(MAX_WAIT_MS)
    assert forgotten_partitions(cluster) == [0]


def test_v16_leader_that_has_not_taken_over_returns_a_retriable_error() -> None:
    """V16: the follower retries until the leader has replayed its election; no record is lost."""
    cluster = two_replicas()
    cluster.elect(2, (1, 2), unseen_by=(2,))
    cluster.settle()
    assert cluster[2].consume(0, leader_epoch=2)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert cluster[2].produce("x").outcome == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.pass_ms(LONG_MS)
    cluster[2].replay()
    cluster.pass_ms(LONG_MS)
    produced = cluster[2].produce("b")
    cluster.settle()
    assert (produced.outcome, cluster.logs()) == (0, ["1:a 2:b", "1:a 2:b"])


def test_v16_leader_of_an_older_epoch_returns_unknown_leader_epoch() -> None:
    """C153, C254."""
    cluster = two_replicas()
    cluster.elect(1, (1, 2), unseen_by=(1,))
    assert cluster[1].consume(0, leader_epoch=2)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    cluster[1].replay()
    assert cluster[1].consume(0, leader_epoch=1)[0] == ErrorCode.FENCED_LEADER_EPOCH


# Responses ---------------------------------------------------------------------------------------


def respond_with(cluster: Cluster, batches: bytes) -> None:
    """Respond to the follower's request in flight with these records."""
    flight = cluster.flight(2)
    cluster[1].produce("w")
    cluster.run_turns()
    [topic] = flight.response.responses
    topic.partitions[0].records = batches
    cluster.complete(flight)
    cluster.run_turns()


@pytest.mark.parametrize(
    ("bad", "error_parts"),
    [
        (make_batch("z", base=2, epoch=2), "of epoch 2 from the leader of epoch 1"),
        (make_batch("z", base=0, epoch=1), "lower than the one before|where 2 is next"),
        (make_batch("z", base=1, epoch=1), "where 2 is next|offset"),
        (make_batch("z", base=2, epoch=-1), "epoch -1"),
        (make_batch("z", base=2, epoch=0), "epoch 0 after 1"),
        (bytearray(make_batch("z", base=2, epoch=1)[:-1] + b"?"), "checksum"),
    ],
    ids=["newer epoch", "offset back", "offset again", "no epoch", "epoch back", "checksum"],
)
def test_v6_invalid_batch_is_not_appended_and_the_valid_ones_are(
    bad: bytearray, error_parts: str
) -> None:
    """C190 (KAFKA-18723): valid batches before it are kept, and the rest is fetched again."""
    cluster = two_replicas()
    respond_with(cluster, bytes(make_batch("b", base=1, epoch=1) + bad))
    assert cluster.logs()[1] == "1:ab"
    assert any(part in line for line in cluster[2].lines for part in error_parts.split("|")), (
        cluster[2].lines
    )
    assert named_partitions(cluster) == [(0, 2)], "the next fetch, without backoff"


def test_v6_batch_of_a_newer_epoch_is_refused_even_alone() -> None:
    """The partition is left out of fetches for a while, and then fetched from the same offset.

    C190.
    """
    cluster = two_replicas()
    respond_with(cluster, bytes(make_batch("z", base=1, epoch=2)))
    assert cluster.logs()[1] == "1:a"
    cluster.pass_ms(LONG_MS)
    assert cluster.logs()[1] == "1:aw"


def test_v6_divergence_beyond_the_followers_end_delays_its_next_fetch() -> None:
    """Truncating to that offset would change nothing, and the leader would respond the same."""
    cluster = two_replicas()
    flight = cluster.flight(2)
    cluster[1].produce("b")
    cluster.run_turns()
    [part] = flight.response.responses[0].partitions
    part.diverging_epoch = EpochEndOffset(epoch=1, end_offset=9)
    cluster.complete(flight)
    cluster[2].turn()
    assert cluster.flights == []
    assert cluster[2].truncations == []
    cluster.pass_ms(LONG_MS)
    assert cluster.logs() == ["1:ab", "1:ab"]


def test_v6_cut_off_batch_is_fetched_again() -> None:
    """A response may end within a batch: no error, no backoff."""
    cluster = two_replicas()
    second = make_batch("c", base=2, epoch=1)
    respond_with(cluster, bytes(make_batch("b", base=1, epoch=1) + second[:-5]))
    assert (cluster.logs()[1], cluster[2].lines) == ("1:ab", [])
    assert named_partitions(cluster) == [(0, 2)]


def test_v6_fetches_back_off_while_the_followers_disk_is_full() -> None:
    """Batches that arrive but cannot be written do not end the backoff; a write does."""
    cluster = two_replicas()

    def delay_ms() -> int:
        """How long the follower waits before its next fetch."""
        due_ms = cluster[2].replica_manager.fetchers.deadline()
        assert due_ms is not None
        return due_ms - cluster.now.monotonic_ms

    cluster[2].is_full = True
    cluster[1].produce("b")
    cluster.settle()
    delays = []
    for _ in range(9):
        delays.append(delay_ms())
        cluster.pass_ms(delays[-1])
    assert delays == [10, 20, 40, 80, 160, 320, 640, LONGEST_BACKOFF_MS, LONGEST_BACKOFF_MS]
    cluster[2].is_full = False
    cluster.pass_ms(LONGEST_BACKOFF_MS)
    assert cluster.logs() == ["1:ab", "1:ab"]
    cluster[2].is_full = True
    cluster[1].produce("c")
    cluster.settle()
    assert delay_ms() == delays[0]


def test_v6_fetched_batches_keep_their_epochs() -> None:
    """V6, C152: a response with several epochs becomes an append for each of them."""
    cluster = Cluster({1: "1:ab 3:c 5:d", 2: ""}, epoch=7, isr=(1,))
    cluster.settle()
    assert cluster[2].log.epochs.entries() == [(1, 0), (3, 2), (5, 3)]


def test_v6_holes_of_a_compacted_log_are_kept() -> None:
    """V6: records keep the leader's offsets, with the gaps that compaction has left."""
    cluster = Cluster({1: "1:a..b 2:.c", 2: ""}, epoch=3, isr=(1,))
    cluster.settle()
    assert cluster[2].log.records() == cluster[1].log.records()
    assert cluster[2].log.end == 6


@pytest.mark.parametrize("event", ["other leader", "same leader", "deleted"])
def test_v6_response_of_an_older_epoch_is_ignored(event: str) -> None:
    """V6, C193, C254: a response to a fetch of another leader epoch is not appended."""
    cluster = two_replicas()
    flight = cluster.flight(2)
    cluster[1].produce("b")
    cluster.run_turns()
    assert flight.response is not None
    if event == "deleted":
        cluster.delete_topic(TOPIC_ID)
    else:
        cluster.elect(1 if event == "same leader" else 2, (1, 2))
    cluster.complete(flight)
    assert cluster[2].replica_manager.turn == []


def test_s9_response_about_a_deleted_topic_is_not_taken_for_its_successor() -> None:
    """S9: created again under the same name, the topic has another id and none of the records.

    C258.
    """
    cluster = two_replicas()
    flight = cluster.flight(2)
    cluster[1].produce("b")
    cluster.run_turns()
    cluster.delete_topic(TOPIC_ID)
    cluster.commit(*topic_records(OTHER_ID, (1, 2), (1, 2), 1, 1))
    cluster.run_turns()
    cluster.complete(flight)
    cluster.settle()
    cluster.pass_ms(LONG_MS)
    assert cluster.logs() == ["", ""]
    produced = cluster[1].produce("x")
    cluster.settle()
    assert (produced.outcome, cluster.logs()) == (0, ["1:x", "1:x"])


def test_s9_leader_that_has_not_seen_the_deletion_serves_no_stale_records() -> None:
    """S9, C258: the follower asks by topic id, which the leader does not know yet."""
    cluster = two_replicas("1:abc", "1:abc")
    cluster.delete_topic(TOPIC_ID, unseen_by=(1,))
    cluster.commit(*topic_records(OTHER_ID, (1, 2), (1, 2), 1, 1), unseen_by=(1,))
    cluster.pass_ms(LONG_MS)
    assert str(cluster[2].log) == ""
    cluster[1].replay()
    cluster.pass_ms(LONG_MS)
    assert cluster.logs() == ["", ""]


# The follower's disk -----------------------------------------------------------------------------


def test_v6_full_disk_of_a_follower_is_tried_again() -> None:
    """The leader goes on, and the follower catches up once there is space."""
    cluster = two_replicas()
    cluster[2].is_full = True
    produced = cluster[1].produce("b")
    cluster.settle()
    assert cluster[2].partition.end == 1
    cluster.pass_ms(LONG_MS)
    cluster[2].is_full = False
    cluster.pass_ms(LONG_MS)
    assert (cluster.logs(), produced.outcome) == (["1:ab", "1:ab"], 0)


def test_v13_full_disk_of_one_partition_does_not_stop_others() -> None:
    """C191."""
    cluster = two_replicas()
    add_partition(cluster, 1)
    cluster.settle()
    cluster[2].is_full = True
    cluster[1].produce("b")
    cluster.settle()
    cluster[2].is_full = False
    other = cluster[1].replica_manager.partitions[TOPIC_ID, 1]
    pending = cluster[1].produce("x", partition=other)
    cluster.settle()
    assert pending.outcome == 0, "while the first partition is left out"


def test_v6_next_fetch_waits_for_the_write() -> None:
    """The fetch offset includes fetched records only once they are written."""
    cluster = two_replicas()
    cluster[2].holds_writes = True
    cluster[1].produce("b")
    cluster.settle()
    assert cluster.flights == []
    cluster[2].write()
    cluster.run_turns()
    assert named_partitions(cluster) == [(0, 2)]


def test_v13_removed_partition_never_holds_back_the_fetches_of_others() -> None:
    """C192: its log is deleted while fetched records wait for a flush, which never comes."""
    cluster = two_replicas()
    add_partition(cluster, 1)
    cluster.settle()
    cluster[2].holds_writes = True
    cluster[1].produce("b")
    cluster.settle()
    assert cluster.flights == []
    cluster.commit(
        records.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, replicas=(1,), isr=(1,))
    )
    cluster.settle()
    cluster[2].write()
    other = cluster[1].replica_manager.partitions[TOPIC_ID, 1]
    produced = cluster[1].produce("x", partition=other)
    cluster.settle()
    assert produced.outcome == 0


def test_v13_next_leader_that_still_writes_holds_back_no_fetches() -> None:
    """As a leader, it no longer fetches, so no fetch waits for its pending write."""
    cluster = two_replicas()
    add_partition(cluster, 1)
    cluster.settle()
    cluster[2].holds_writes = True
    cluster[1].produce("b")
    cluster.settle()
    cluster.elect(2, (1, 2))
    cluster.settle()
    assert cluster.flight(2).effect.peer == 1


# Producers ---------------------------------------------------------------------------------------


def test_v6_next_leader_knows_duplicates() -> None:
    """A producer repeats its batch after a failover, and the new leader recognises it."""
    cluster = two_replicas()
    cluster[1].produce("bc", producer=(7, 0, 0))
    cluster.settle()
    cluster.elect(2, (1, 2))
    cluster.settle()
    partition = cluster[2].partition
    repeated = read_header(make_batch("c", producer=(7, 0, 1)))
    assert partition.check_producer(repeated) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert partition.duplicate_of(repeated).first_offset == 2
    assert (
        partition.check_producer(read_header(make_batch("d", producer=(7, 0, 2)))) == ErrorCode.NONE
    )
    after_gap = read_header(make_batch("e", producer=(7, 0, 3)))
    assert partition.check_producer(after_gap) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_v6_truncated_batches_are_no_duplicates() -> None:
    """The new leader never had the batch: the old one forgets it before it leads again."""
    cluster = two_replicas()
    cluster.isolate(1)
    cluster[1].produce("x", producer=(7, 0, 0))
    cluster[1].turn()
    cluster.elect(2, (1, 2), unseen_by=(1,))
    cluster[2].produce("b")
    cluster.settle()
    cluster.heal()
    cluster[1].replay()
    cluster.pass_ms(LONG_MS)
    assert cluster.logs() == ["1:a 2:b", "1:a 2:b"]
    cluster.elect(1, (1, 2))
    repeated = read_header(make_batch("x", producer=(7, 0, 0)))
    assert cluster[1].partition.check_producer(repeated) == ErrorCode.NONE


# Becoming leader ---------------------------------------------------------------------------------


def test_v6_leader_stops_fetching_first() -> None:
    """V6, C196: a response that arrives after the election is not appended."""
    cluster = two_replicas()
    flight = cluster.flight(2)
    cluster[1].produce("b")
    cluster.run_turns()
    cluster.elect(2, (1, 2))
    produced = cluster[2].produce("c")
    cluster.complete(flight)
    cluster.settle()
    assert produced.base_offset == 1
    assert cluster.logs()[1] == "1:a 2:c"


def test_v6_leader_serves_once_fetched_batches_are_written() -> None:
    """V6, C196: fetched records are part of its log, and its epoch begins after them."""
    cluster = two_replicas()
    cluster[2].holds_writes = True
    cluster[1].produce("b")
    cluster.settle()
    cluster.elect(2, (1, 2))
    assert not cluster[2].serves()
    assert cluster[2].produce("x").outcome == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster[2].write()
    assert cluster[2].serves()
    cluster[2].produce("c")
    cluster.settle()
    assert cluster.logs() == ["1:ab 2:c", "1:ab 2:c"]


def test_v6_batches_fetched_in_the_turn_of_the_election_are_dropped() -> None:
    """V6: they are not written yet, so the leader begins where its log ends."""
    cluster = two_replicas()
    flight = cluster.flight(2)
    cluster[1].produce("b")
    cluster.run_turns()
    cluster.complete(flight)
    assert cluster[2].partition.end == 2
    cluster.elect(2, (1, 2))
    assert (cluster[2].partition.online, cluster[2].partition.end) == (True, 1)
    cluster[2].produce("c")
    cluster.settle()
    cluster.pass_ms(LONG_MS)
    assert cluster.logs() == ["1:a 2:c", "1:a 2:c"]


def test_v6_leader_serves_once_its_truncation_is_done() -> None:
    """V6, C196: elected while it truncates, it leads from the truncated end on."""
    cluster = Cluster({1: "1:a 3:x", 2: "1:abc"}, epoch=3, isr=(1,))
    cluster[2].holds_truncations = True
    cluster.settle()
    cluster.elect(2, (2,))
    assert not cluster[2].serves()
    cluster[2].truncate()
    assert (cluster[2].partition.online, cluster[2].partition.end) == (True, 1)
    cluster[2].produce("d")
    cluster.settle()
    cluster.pass_ms(LONG_MS)
    assert cluster.logs() == ["1:a 4:d", "1:a 4:d"]


def test_v6_reelected_leader_drops_nothing() -> None:
    """A new epoch of the same leader: its records, pending or not, stay in the epoch they have."""
    cluster = two_replicas()
    cluster[1].produce("b")
    cluster.elect(1, (1, 2))
    cluster[1].produce("c")
    cluster.settle()
    cluster.pass_ms(LONG_MS)
    assert cluster.logs() == ["1:ab 2:c", "1:ab 2:c"]


def test_v6_resigned_leader_drops_what_is_not_written() -> None:
    """V6: it fetches from its written end; the appends of its turn are dropped and refused."""
    cluster = two_replicas()
    pending = cluster[1].produce("x")
    cluster.elect(2, (1, 2))
    assert pending.outcome == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster[2].produce("b")
    cluster.settle()
    cluster.pass_ms(LONG_MS)
    assert cluster.logs() == ["1:a 2:b", "1:a 2:b"]


def test_v6_failover_does_not_wait_for_the_followers_fetch() -> None:
    """A new leader ends its followers' waiting fetches, so that they add the partition at once."""
    cluster = Cluster({1: "1:a", 2: "1:a", 3: "1:a"})
    second_partition = topic_records(TOPIC_ID, (2, 1, 3), (2, 1, 3), 2, 1)[-1]
    second_partition.partition_id = 1
    cluster.commit(second_partition)
    cluster.settle()
    cluster.pass_ms(MAX_LAG_MS)
    cluster.elect(2, (1, 2, 3))
    produced = cluster[2].produce("b")
    cluster.settle()
    cluster.pass_ms(10)
    assert produced.outcome == 0, "the waiting fetches of brokers 1 and 3 got a response"


def test_v6_without_a_leader_nothing_is_fetched() -> None:
    """The partition is offline: its replicas keep what they have."""
    cluster = two_replicas()
    cluster.elect(-1, (1,))
    cluster.settle()
    cluster.pass_ms(LONG_MS)
    assert [cluster[broker_id].partition.online for broker_id in (1, 2)] == [False, False]
    assert cluster.flights == []
    cluster.elect(1, (1,))
    cluster.settle()
    assert cluster[1].proposed == [(1, 2)]


def test_v4_log_of_another_topic_id_is_replaced_by_an_empty_one() -> None:
    """S9: a broker that was down while a topic was deleted and created again starts empty."""
    cluster = two_replicas("1:abc", "1:abc")
    cluster.crash(2)
    cluster.delete_topic(TOPIC_ID)
    cluster.commit(*topic_records(OTHER_ID, (1, 2), (1,), 1, 1))
    cluster[1].turn()
    cluster[1].produce("x")
    cluster.settle()
    cluster.restart(2)
    cluster.settle()
    assert (cluster.logs(), cluster[2].logs.topic_ids[LOG]) == (["1:x", "1:x"], OTHER_ID)
