"""The quorum beside etcd and ZooKeeper: its table and shares; Kafka's tools: what they print."""

from __future__ import annotations

import pytest
from bench.beside.figures import Result
from bench.beside.rows import KAFKA, KRAFTLOG
from bench.beside.tools import average_ms, consumer_figures, latencies
from bench.quorums.command import shares
from bench.quorums.ensembles import ETCD, PEERS, ZOOKEEPER, latency_averages
from bench.quorums.page import NAMES, ROWS, SHARES, reached, section_text

METRICS = """\
# HELP kraftlog_quorum_change_latency_avg Milliseconds
kraftlog_quorum_change_latency_avg 2
kraftlog_quorum_flush_latency_avg 0.5
kraftlog_quorum_apply_latency_avg 0.1
kraftlog_http{path="/a b"} 7
kafka_server_raftmetrics_commit_latency_avg 1.5
"""


def test_q36_the_shares_of_a_commits_latency_are_shown() -> None:
    """Q36: the shares of fsync, of propagation and of applying."""
    found = shares(latency_averages(METRICS))
    assert {key: round(share, 3) for key, share in found.items()} == {
        "share.flush": 25,
        "share.propagation": 50,
        "share.apply": 5,
    }
    result = Result("quorums")
    for row in SHARES:
        result.add(row.key, KRAFTLOG, found[row.key])
    text = section_text(result, "4.4.0")
    assert "until flushed by the leader (fsync) 25 %, from then until committed" in text


def test_q36_zookeeper_and_both_modes_of_kafka_are_compared() -> None:
    """Q36: a quorum of ZooKeeper, and three brokers of Kafka in ZooKeeper and in KRaft mode."""
    result = Result("quorums")
    for row in ROWS:
        for number, peer in enumerate(PEERS, 1):
            result.add(row.key, peer, number)
    text = section_text(result, "4.4.0")
    assert list(NAMES) == list(PEERS)
    assert "| | unit | kraftlog | etcd | ZooKeeper | Kafka, KRaft | Kafka, ZooKeeper |" in text
    assert "| 256 changes at once | commits/s | 1 | 2 | 3 | 4 | 5 |" in text
    assert "Apache Kafka 4.4.0 with" in text


def test_the_goal_is_the_better_of_etcd_and_zookeeper() -> None:
    rows = {row.key: row for row in ROWS}
    figures = {KRAFTLOG: 4.0, ETCD: 5.0, ZOOKEEPER: 3.0, KAFKA: 1.0}
    assert reached(rows["p50"], figures) == "**missing 1.3×**"
    assert reached(rows["rate.1"], figures) == "**missing 1.2×**"
    assert reached(rows["p50"], figures | {ZOOKEEPER: 4.0}) == "reached"
    assert reached(rows["p50"], {KRAFTLOG: 1.0}) == ""


def test_the_output_of_kafkas_performance_tools_is_read() -> None:
    produced = "9 records sent, 1.0 records/sec, 5 ms 50th, 60 ms 95th, 90 ms 99th, 99 ms 99.9th.\n"
    assert latencies(f"3 ms 50th, 4 ms 95th, 5 ms 99th\n{produced}") == (5, 90)
    assert latencies(produced.replace("5 ms 50th", "0 ms 50th")) == (1, 90)
    consumed = (
        "WARN x\nstart.time, end.time, MB.sec, nMsg.sec, rebalance.time.ms, fetch.time.ms, "
        "fetch.nMsg.sec\n2026-01-01 00:00:00:779, 2026-01-01 00:00:05:334, 7, 8, 2387, 4168, 11.5\n"
    )
    figures = consumer_figures(consumed)
    assert (figures["rebalance.time.ms"], figures["fetch.nMsg.sec"]) == (2387, 11.5)
    assert average_ms("0\t396.1\nAvg latency: 9.0350 ms\n\nPercentiles: 50th = 3") == 9.035
    for parse in (latencies, average_ms):
        with pytest.raises(ValueError, match="gave no"):
            parse("Exception")
