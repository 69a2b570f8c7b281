"""V6, V8: a change of leader or epoch while writes and truncations are under way."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from tests.replication.broker import MAX_LAG_MS, MAX_WAIT_MS
from tests.replication.cluster import Cluster

LONG_MS = 2_000


def test_v7_fetch_from_another_leader_waits_for_the_write() -> None:
    """V7: what was fetched from the former leader is not named before it is written."""
    cluster = Cluster({1: "1:a", 2: "1:a", 3: "1:a"})
    cluster.settle()
    cluster[2].holds_writes = True
    cluster[1].produce("b")
    cluster.settle()
    cluster.elect(3, (1, 2, 3))
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    assert cluster[3].high_watermark == 1
    assert [it.follower.id for it in cluster.flights] == [1]
    cluster[2].write()
    cluster.settle()
    assert cluster[3].high_watermark == 2


def test_v7_former_leader_fetches_once_its_own_records_are_written() -> None:
    """V7: as a follower, it names only what it has."""
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


def test_v6_truncation_under_way_at_a_new_epoch() -> None:
    """V6: nothing is fetched before it is done, and then from the truncated end."""
    cluster = Cluster({1: "1:a", 2: "1:abc"}, epoch=3, isr=(1,))
    cluster[2].holds_truncations = True
    cluster.settle()
    cluster.elect(1, (1,))
    cluster.turns()
    for flight in cluster.flights[:]:
        cluster.serve(flight)
    cluster[2].truncate()
    cluster.settle()
    assert cluster.logs() == ["1:a", "1:a"]
    assert cluster[1].proposed == [(1, 2)]


def test_v6_truncation_under_way_without_a_leader() -> None:
    """V6: the next leader is followed from the truncated end."""
    cluster = Cluster({1: "1:a", 2: "1:abc"}, epoch=3, isr=(1,))
    cluster[2].holds_truncations = True
    cluster.settle()
    cluster.elect(-1, (1,))
    cluster[2].truncate()
    cluster.elect(1, (1,))
    cluster.settle()
    assert cluster.logs() == ["1:a", "1:a"]


def test_v8_failed_append_does_not_keep_followers_from_joining() -> None:
    """V8: the start of a leader epoch is where the log ended, not where a failed append did."""
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
