"""V6: a follower truncates to where its log agrees with the leader's, by leader epochs."""

from __future__ import annotations

import pytest

from kraftlog.records.header import read_header
from tests.replication.broker import LOG, MAX_WAIT_MS, TOPIC_ID
from tests.replication.cluster import Cluster
from tests.replication.memory_log import make_batch

#: Longer than any backoff of a fetcher.
LONG_MS = 2_000


def common_end(first: str, second: str) -> int:
    """The offset up to which two logs agree."""
    offset = 0
    pairs = [
        [(group[: group.index(":")], letter) for group in log.split() for letter in group[2:]]
        for log in (first, second)
    ]
    for mine, other in zip(*pairs, strict=False):
        if mine != other:
            break
        offset += 1
    return offset


@pytest.mark.parametrize(
    ("leader", "follower"),
    [
        pytest.param("", "", id="both empty"),
        pytest.param("1:abc", "", id="follower empty"),
        pytest.param("1:abc", "1:abc", id="equal"),
        pytest.param("1:abc", "1:ab", id="follower behind"),
        pytest.param("1:ab", "1:abcd", id="follower ahead in the leader's last epoch"),
        pytest.param("1:ab 3:x", "1:abcd", id="follower has more of an old epoch"),
        pytest.param("1:ab 3:x", "1:ab 2:cd", id="leader never had the follower's epoch"),
        pytest.param("1:abc 3:x", "1:a 2:yz", id="both end in epochs unknown to the other"),
        pytest.param("1:abc 4:x", "1:a 2:y 3:z", id="several epochs of its own"),
        pytest.param("1:ab 2:cd 4:e", "1:ab 2:c 3:xyz", id="part of a shared epoch"),
        pytest.param("1:ab 3:cd 5:e", "1:abx 2:y 4:z", id="epochs alternate"),
        pytest.param("2:abc", "1:xyz", id="nothing in common"),
        pytest.param("2:a", "1:xyz", id="nothing in common, follower longer"),
        pytest.param("1:a", "1:a 2:bc", id="leader has nothing after the shared epoch"),
        pytest.param("1:a 2:b 3:c 4:d 5:e", "1:a", id="leader is epochs ahead"),
    ],
)
def test_v6_follower_ends_with_the_leaders_log(leader: str, follower: str) -> None:
    """V6, C195: it keeps the common records, and fetches the rest from the leader."""
    cluster = Cluster({1: leader, 2: follower}, epoch=9, isr=(1,))
    cluster.settle()
    assert cluster.logs() == [leader, leader]
    assert min(cluster[2].truncations, default=99) >= common_end(leader, follower)
    produced = cluster[1].produce("w")
    cluster.settle()
    assert (cluster.logs()[1], produced.outcome) == (cluster.logs()[0], 0)


def test_v6_follower_of_an_empty_leader_drops_its_own_records() -> None:
    """V6: a leader without records makes it truncate to 0 in its first response."""
    cluster = Cluster({1: "", 2: "1:abc"}, epoch=9, isr=(1,))
    cluster.settle()
    cluster.pass_ms(LONG_MS)
    assert cluster.logs() == ["", ""]
    assert cluster[1].proposed == [(1, 2)], "it joins the ISR without waiting for a record"


def test_v6_kip_101_restart_keeps_records_above_the_high_watermark() -> None:
    """V6, V15, C252 (KIP-101, first example): the record at offset 1 is acknowledged, and stays."""
    cluster = Cluster({1: "1:ab", 2: "1:ab"}, high_watermarks={1: 2, 2: 1})
    cluster.settle()
    cluster.crash(2)
    cluster.restart(2)
    assert cluster[2].high_watermark == 1
    cluster.crash(1)
    cluster.elect(2, (2,))
    cluster.settle()
    cluster.restart(1)
    cluster.settle()
    assert cluster.logs() == ["1:ab", "1:ab"]
    assert cluster[2].high_watermark == 2
    assert cluster[1].truncations == cluster[2].truncations == []


def test_v6_kip_101_logs_of_two_leaders_without_flush_converge() -> None:
    """V6 (KIP-101, second example): both write another record at the same offset."""
    cluster = Cluster({1: "1:ab", 2: "1:a"}, isr=(1,))
    cluster.crash(1)
    cluster.elect(2, (2,))  # unclean
    cluster[2].produce("x")
    cluster.settle()
    assert cluster.logs() == ["1:ab", "1:a 2:x"]
    cluster.restart(1)
    cluster.settle()
    assert cluster.logs() == ["1:a 2:x", "1:a 2:x"]
    assert cluster[1].truncations == [1]


def test_v6_kip_279_logs_converge_after_fast_leader_changes() -> None:
    """V6, C253 (KIP-279): the new leader lacks the follower's last epoch and has later ones."""
    # In epoch 2 broker 2 wrote b, in epoch 3 broker 1 wrote c: neither was replicated.
    cluster = Cluster({1: "1:a 3:c", 2: "1:a 2:b"}, leader=2, epoch=4, isr=(2,))
    cluster[2].produce("d")
    cluster.settle()
    assert cluster.logs() == ["1:a 2:b 4:d", "1:a 2:b 4:d"]
    assert cluster[1].truncations == [1]


def test_v6_elections_without_records_truncate_nothing() -> None:
    """V6, C257 (KAFKA-10706): epochs in which nothing was written make no follower truncate."""
    cluster = Cluster({1: "1:ab", 2: "1:ab", 3: "1:ab"})
    for leader in (2, 3, 1, 2):
        cluster.elect(leader, (1, 2, 3))
    cluster.settle()
    assert [cluster[broker_id].truncations for broker_id in (1, 2, 3)] == [[], [], []]
    produced = cluster[2].produce("c")
    cluster.settle()
    assert produced.outcome == 0
    assert cluster.logs() == ["1:ab 5:c"] * 3


def test_v6_diverging_below_the_high_watermark_is_truncated_and_logged() -> None:
    """V6: the log of an uncleanly elected leader decides; the high watermark falls with the log."""
    cluster = Cluster({1: "1:a 3:x", 2: "1:abc"}, epoch=3, isr=(1,), high_watermarks={2: 3})
    assert cluster[2].high_watermark == 3
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    assert cluster.logs() == ["1:a 3:x", "1:a 3:x"]
    assert any("below the high watermark 3" in line for line in cluster[2].lines)
    assert cluster[2].high_watermark == cluster[1].high_watermark


def test_v6_follower_below_the_leaders_start_restarts_there() -> None:
    """V6, C189: the records between were deleted, so the follower starts at the leader's start."""
    cluster = Cluster({1: "2:xyz", 2: "1:ab"}, epoch=3, isr=(1,), starts={1: 10})
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    follower = cluster[2]
    assert (follower.log.start, follower.log.end, str(follower.log)) == (10, 13, "2:xyz")
    assert (follower.partition.start, follower.high_watermark) == (10, cluster[1].high_watermark)


def test_v6_follower_that_ends_inside_the_leaders_first_batch_begins_there() -> None:
    """The leader has deleted all that the follower has, up to an offset within a batch.

    It does not know the follower's epoch any more, so that it names no diverging epoch.
    """
    cluster = Cluster({1: "1:ab", 2: "1:ab 2:xy"}, epoch=3, isr=(1,))
    cluster.isolate(2)
    leader, follower = cluster[1], cluster[2]
    batch = make_batch("cde")
    leader.partition.append(read_header(batch), memoryview(batch), leader.replica_manager.turn)
    cluster.settle()
    leader.delete_records(4)
    cluster.settle()
    cluster.heal()
    cluster.settle()
    cluster.pass_ms(LONG_MS)
    assert cluster.logs() == ["3:e", "3:e"]
    assert [header.base_offset for header, _ in follower.log.batches] == [2]
    assert (follower.partition.start, follower.partition.end) == (4, 5)


def test_v6_follower_above_the_leaders_end_takes_the_leaders_log() -> None:
    """V6: the follower has nothing that the leader has, and takes all of it."""
    cluster = Cluster({1: "2:xy", 2: "1:ab"}, epoch=3, isr=(1,), starts={2: 10})
    cluster.settle()
    cluster.pass_ms(LONG_MS)
    assert cluster.logs() == ["2:xy", "2:xy"]
    assert (cluster[2].log.start, cluster[2].partition.start) == (0, 0)


def test_v6_empty_follower_above_the_leaders_end_goes_back() -> None:
    """V6: without an epoch of its own it is out of range, and truncates to the leader's end.

    C188.
    """
    cluster = Cluster({1: "2:xy", 2: ""}, epoch=3, isr=(1,), starts={2: 10})
    cluster.settle()
    cluster.pass_ms(LONG_MS)
    assert cluster[2].partition.end == 2
    assert cluster[2].log.end == 2


def test_v6_emptied_logs_agree_without_records() -> None:
    """V6: the leader has deleted all records; the followers end at the same offset."""
    cluster = Cluster({1: "", 2: "", 3: ""}, epoch=3, isr=(1,), starts={1: 10, 2: 10, 3: 4})
    cluster.settle()
    cluster.pass_ms(LONG_MS)
    assert [cluster[broker_id].partition.end for broker_id in (1, 2, 3)] == [10, 10, 10]
    assert cluster[1].proposed == [(1, 2)]
    cluster.accept(1)
    cluster.settle()
    cluster.accept(1)
    assert cluster[1].partition.isr == (1, 2, 3)


def test_v6_follower_of_an_emptied_leader_joins_at_its_end() -> None:
    """V6: retention has deleted all of the leader's records up to the follower's end."""
    cluster = Cluster({1: "", 2: "1:abc"}, epoch=3, isr=(1,), starts={1: 3})
    cluster.settle()
    cluster.pass_ms(LONG_MS)
    assert cluster[2].partition.end == 3
    assert cluster[1].proposed == [(1, 2)]


def test_v15_stored_high_watermark_is_a_lower_bound() -> None:
    """V15: it is at most the log's end, and the log is not truncated to it."""
    cluster = Cluster(
        {1: "1:abcd", 2: "1:abcd", 3: "1:abcd"},
        high_watermarks={1: 2, 2: 9, 3: 0},
        starts={},
    )
    assert [cluster[broker_id].high_watermark for broker_id in (1, 2, 3)] == [2, 4, 0]
    assert cluster.logs() == ["1:abcd"] * 3
    cluster.settle()
    cluster.pass_ms(MAX_WAIT_MS)
    assert [cluster[broker_id].high_watermark for broker_id in (1, 2, 3)] == [4, 4, 4]
    assert [cluster[broker_id].truncations for broker_id in (1, 2, 3)] == [[], [], []]


def test_v15_stored_high_watermark_is_at_least_the_log_start() -> None:
    """V15: deleted records had been committed."""
    cluster = Cluster({1: "1:ab", 2: "1:ab"}, starts={1: 5, 2: 5})
    assert [cluster[broker_id].high_watermark for broker_id in (1, 2)] == [5, 5]


def test_v6_nothing_is_fetched_during_a_truncation() -> None:
    """C194."""
    cluster = Cluster({1: "1:a 3:x", 2: "1:abc"}, epoch=3, isr=(1,))
    cluster[2].holds_truncations = True
    cluster.settle()
    assert [truncation.offset for truncation in cluster[2].untruncated] == [1]
    assert not [topic for flight in cluster.flights for topic in flight.request.topics]
    cluster[2].truncate()
    cluster.settle()
    assert cluster.logs() == ["1:a 3:x", "1:a 3:x"]


def test_v6_pending_truncation_of_a_deleted_log_does_nothing() -> None:
    """V6, C192: the topic is deleted while the truncation is pending."""
    cluster = Cluster({1: "1:a 3:x", 2: "1:abc"}, epoch=3, isr=(1,))
    cluster[2].holds_truncations = True
    cluster.settle()
    cluster.delete_topic(TOPIC_ID)
    cluster[2].truncate()
    cluster.settle()
    assert LOG not in cluster[2].logs.by_name
