"""The section of the page: a column for each quorum, and goals for kraftlog's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.beside.page import verdict
from bench.beside.rows import KAFKA, KRAFTLOG, Goal, Row
from bench.page import figure_text
from bench.quorums.ensembles import ETCD, KAFKA_WITH_ZOOKEEPER, PEERS, ZOOKEEPER
from bench.quorums.programs import LAST_WITH_ZOOKEEPER, versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.beside.figures import Result

TITLE = "The quorum beside etcd and ZooKeeper"
NAMES = {
    KRAFTLOG: "kraftlog",
    ETCD: "etcd",
    ZOOKEEPER: "ZooKeeper",
    KAFKA: "Kafka, KRaft",
    KAFKA_WITH_ZOOKEEPER: "Kafka, ZooKeeper",
}
#: The quorums that the goals are about.
OTHERS = (ETCD, ZOOKEEPER)
GOAL = Goal("the better of etcd and ZooKeeper", lambda _: 1, is_relative=True)
ROWS = (
    Row("p50", "a change at a time: latency to commit, p50", "ms", GOAL),
    Row("p99", "a change at a time: latency to commit, p99", "ms", GOAL),
    Row("rate.1", "a change at a time", "commits/s", GOAL, more_is_better=True),
    Row("rate.256", "256 changes at once", "commits/s", GOAL, more_is_better=True),
    Row("kill", "`kill -9` of the leader to the next acknowledged change", "ms", GOAL),
)
#: Shares of a change's latency, in kraftlog.
SHARES = (
    Row("share.flush", "until flushed by the leader (fsync)", "%"),
    Row("share.propagation", "from then until committed (propagation)", "%"),
    Row("share.apply", "to apply it", "%"),
)
HEAD = f"""## {TITLE} (`python -m bench quorums`)

Three nodes of each on the same machine and disk, one quorum after the other, each warmed up first
and each with fsync as shipped: {versions()}; Apache Kafka {{kafka}} with
combined nodes, and {LAST_WITH_ZOOKEEPER}, the last release with ZooKeeper, with three brokers
and three ZooKeepers. A change is that of a topic's setting (kraftlog, Kafka; asked of the active
controller) or of a value of 100 bytes (etcd, ZooKeeper; asked of the leader), by a client in the
quorum's own language: C for kraftlog and Kafka, Go for etcd, Java for ZooKeeper. With Kafka on
ZooKeeper the leader that is killed is ZooKeeper's. Figures are medians of the rounds (rule Q36).
"""


def section_text(result: Result, kafka: str) -> str:
    return "\n".join([HEAD.format(kafka=kafka), *table(result), "", *shares(result), ""])


def table(result: Result) -> Iterator[str]:
    yield f"| | unit | {' | '.join(NAMES.values())} | to reach | |"
    yield f"|---|---|{'---:|' * len(PEERS)}---|---|"
    for row in ROWS:
        medians = result.medians(row.key)
        figures = [figure_text(medians[peer]) if peer in medians else "" for peer in PEERS]
        cells = [row.what, row.unit, *figures, GOAL.text, reached(row, medians)]
        yield f"| {' | '.join(cells)} |"


def reached(row: Row, medians: Mapping[str, float]) -> str:
    """Whether kraftlog is at least as good as the best of the others."""
    others = [medians[peer] for peer in OTHERS if peer in medians]
    if KRAFTLOG not in medians or not others:
        return ""
    best = max(others) if row.more_is_better else min(others)
    return verdict(row, best, row.times_better(best, medians[KRAFTLOG]))


def shares(result: Result) -> Iterator[str]:
    words = [
        f"{row.what} {figure_text(medians[KRAFTLOG])} %"
        for row in SHARES
        if (medians := result.medians(row.key))
    ]
    if words:
        yield f"Shares of a change's latency in kraftlog, one at a time: {', '.join(words)}."
        yield ""
    yield " ".join([f"Before it the machine was {result.idle_before:.0f} % idle.", *result.notes])
