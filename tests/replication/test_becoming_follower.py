"""V6, V7, V8: a change of leader or epoch while writes and truncations are under way."""

from __future__ import annotations

from kraftlog.effects import LogOpened, LogTruncated
from kraftlog.errors import ErrorCode
from kraftlog.records.header import read_header
from kraftlog.wire.messages.metadata_records import PartitionChangeRecord
from tests.replication.broker import LOG, MAX_LAG_MS, MAX_WAIT_MS, TOPIC_ID
from tests.replication.cluster import Cluster
from tests.replication.memory_log import make_batch

#: Longer than any backoff of a fetcher.
LONG_MS = 2_000


def test_v7_fetch_from_another_leader_waits_for_the_write() -> None:
    """V7: records of the former leader count in the fetch offset once they are written."""
    cluster = Cluster({1: "1:a", 2: "1:a", 3: "1:a"})
    cluster.settle()
    cluster[2].holds_writes = True
    cluster[1].produce("b")
    cluster.settle()
    cluster.elect(3, (1, 2, 3))
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    assert cluster[3].high_watermark == 1
    assert [flight.follower.id for flight in cluster.flights] == [1]
    cluster[2].write()
    cluster.settle()
    assert cluster[3].high_watermark == 2


def test_v7_former_leader_fetches_once_its_own_records_are_written() -> None:
    """V7: as a follower, it fetches from its written end."""
    cluster = Cluster({1: "1:a", 2: "1:a"})
    cluster.settle()
    cluster[1].holds_writes = True
    cluster[1].produce("xyz")
    cluster[1].turn()
    cluster.elect(2, (1, 2))
    cluster[2].produce("b")
    cluster.settle()
    cluster[1].write()
    cluster.settle()
    cluster.pass_ms(LONG_MS)
    assert cluster.logs() == ["1:a 2:b", "1:a 2:b"]
    assert (cluster[1].partition.written_end, cluster[2].high_watermark) == (2, 2)


def test_v6_at_a_new_epoch_no_fetch_precedes_the_truncations_end() -> None:
    """V6, C194: no fetch until the truncation ends, and then from the truncated end."""
    cluster = Cluster({1: "1:a", 2: "1:abc"}, epoch=3, isr=(1,))
    cluster[2].holds_truncations = True
    cluster.settle()
    cluster.elect(1, (1,))
    cluster.run_turns()
    for flight in cluster.flights[:]:
        cluster.serve(flight)
    cluster[2].truncate()
    cluster.settle()
    assert cluster.logs() == ["1:a", "1:a"]
    assert cluster[1].proposed == [(1, 2)]


def test_v6_the_next_leader_is_followed_from_the_truncated_end() -> None:
    """V6: the truncation ends while the partition has no leader."""
    cluster = Cluster({1: "1:a", 2: "1:abc"}, epoch=3, isr=(1,))
    cluster[2].holds_truncations = True
    cluster.settle()
    cluster.elect(-1, (1,))
    cluster[2].truncate()
    cluster.elect(1, (1,))
    cluster.settle()
    assert cluster.logs() == ["1:a", "1:a"]


def test_v8_failed_append_does_not_keep_followers_from_joining() -> None:
    """V8: the start of a leader epoch is where the log ended, not where a failed append would."""
    cluster = Cluster({1: "1:a", 2: "1:a"}, isr=(1,), min_isr=2)
    cluster.isolate(2)
    cluster.settle()
    cluster.pass_ms(MAX_LAG_MS)
    cluster.set_isr((1, 2))
    failed = cluster[1].produce("b")
    cluster.elect(1, (1,))
    cluster[1].is_full = True
    cluster.settle()
    assert failed.outcome == ErrorCode.KAFKA_STORAGE_ERROR
    cluster[1].is_full = False
    cluster.heal()
    cluster.pass_ms(LONG_MS)
    assert cluster[1].proposed == [(1, 2)]


def test_v6_leader_elected_while_truncating_forgets_producers() -> None:
    """V6: the next batch of a producer whose last one was truncated is no duplicate."""
    cluster = Cluster({1: "1:a", 2: "1:a"}, leader=2)
    cluster.settle()
    cluster.isolate(2)
    cluster[2].produce("b", producer=(7, 0, 0))
    cluster.settle()
    cluster.elect(1, (1,))
    cluster[1].produce("c")
    cluster[2].holds_truncations = True
    cluster.heal()
    cluster.pass_ms(LONG_MS)
    cluster.elect(2, (2,))
    cluster[2].truncate()
    cluster.settle()
    assert str(cluster[2].log) == "1:a"
    repeated = read_header(make_batch("b", producer=(7, 0, 0)))
    assert cluster[2].partition.check_producer(repeated) == ErrorCode.NONE


def test_v6_late_truncation_report_of_a_former_log_is_ignored() -> None:
    """V6: the late report is of the former log; the new log fetches once it is open."""
    cluster = Cluster({1: "1:a", 2: "1:abc"}, epoch=3, isr=(1,))
    cluster[2].holds_truncations = True
    cluster.settle()
    report = LogTruncated(LOG, TOPIC_ID, 0, 1)
    manager = cluster[2].replica_manager
    for replicas in ((1,), (1, 2)):
        cluster.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, replicas=replicas))
    manager.handle(report)
    assert not manager.fetchers.is_following(cluster[2].partition)
    cluster[2].holds_truncations = False
    cluster.settle()
    assert cluster.logs() == ["1:a", "1:a"]


def test_log_that_opens_without_a_registration_is_not_followed() -> None:
    """While another process has the broker's id, this one fetches nothing."""
    cluster = Cluster({1: "1:a", 2: "1:a"})
    cluster.settle()
    cluster.register(2, unseen_by=(1,))
    cluster[2].replica_manager.handle(LogOpened(LOG, TOPIC_ID, 0, 1, None, 0))
    assert not cluster[2].replica_manager.fetchers.is_following(cluster[2].partition)


def test_v18_follower_whose_log_has_failed_fetches_nothing() -> None:
    """V18: it could not write the records, and would log that at every attempt."""
    cluster = Cluster({1: "1:a", 2: "1:a"})
    cluster.settle()
    cluster[2].replica_manager.write_failed(cluster[2].partition)
    cluster[1].produce("b")
    cluster.pass_ms(LONG_MS)
    assert cluster.logs() == ["1:ab", "1:a"]
    assert not cluster[2].replica_manager.fetchers.is_following(cluster[2].partition)


def test_v10_kafka_13972_unassigned_replica_stops_and_is_deleted() -> None:
    """V10, C234 (KAFKA-13972): a reassignment to broker 3 is cancelled."""
    cluster = Cluster({1: "1:a", 2: "1:a", 3: "1:a"}, isr=(1, 2))
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    assert {flight.follower.id for flight in cluster.flights} == {2, 3}
    cluster.reassign((1, 2), (1, 2))
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    followers = {
        flight.follower.id for flight in cluster.flights for topic in flight.request.topics
    }
    assert followers <= {2}
    assert LOG not in cluster[3].logs.by_name
    produced = cluster[1].produce("b")
    cluster.settle()
    assert produced.outcome == 0
