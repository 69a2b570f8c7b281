"""The longest wait of an idempotent producer for an acknowledgement while nodes fail or stop.

librdkafka has five requests in flight to each broker, and then waits. Before each event every
partition is led by its preferred replica, so each node leads a third of them.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from bench.beside import frame_client
from bench.beside.figures import percentile
from bench.cluster.nodes import (
    IDS,
    elect_preferred_leaders,
    has_full_isr,
    metadata,
    try_to_create,
    wait_until_each,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from confluent_kafka import KafkaError, Message

    from bench.beside.figures import Result
    from bench.beside.plan import Plan
    from bench.cluster.nodes import Cluster

    #: Lets a node of the cluster fail or stop, and come back.
    Way = Callable[[Cluster, int, "Load"], None]

TOPIC, PARTITIONS = "longest-wait", 6
RECORDS_PER_S = 600
#: How many nodes fail or stop, for each way.
EVENTS = 9
#: Longer than the session of a broker (9 s).
AWAY_S = 20
#: How long the load runs before the first event, and how long the waits of an event may end.
SETTLE_S = 2.0
CALM_TIMEOUT_S = 60
CALM_S = 0.25
CLIENT = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "log_level": 0,
}


class Load:
    """A producer of a steady load; it notes the longest wait of each partition."""

    def __init__(self, address: str) -> None:
        self._producer = Producer({**CLIENT, "bootstrap.servers": address})
        self._acknowledged_at = [time.perf_counter()] * PARTITIONS
        self._longest = [0.0] * PARTITIONS
        self.failed = 0
        self._is_over = False

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._is_over = True
            thread.join()

    def _run(self) -> None:
        sent, begin = 0, time.perf_counter()
        while not self._is_over:
            while sent < (time.perf_counter() - begin) * RECORDS_PER_S:
                try:
                    self._producer.produce(
                        TOPIC,
                        b"%d" % sent,
                        partition=sent % PARTITIONS,
                        on_delivery=self._delivered,
                    )
                except BufferError:  # all wait for a leader
                    break
                sent += 1
            self._producer.poll(0.005)
        self._producer.flush(CALM_TIMEOUT_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        partition = message.partition()
        if error is not None or partition is None:
            self.failed += 1
            return
        now = time.perf_counter()
        waited = now - self._acknowledged_at[partition]
        self._longest[partition] = max(self._longest[partition], waited)
        self._acknowledged_at[partition] = now

    def begin_event(self) -> None:
        self._longest = [0.0] * PARTITIONS

    def wait_until_calm(self) -> None:
        """Wait until every partition has had an acknowledgement lately."""
        end = time.perf_counter() + CALM_TIMEOUT_S
        while time.perf_counter() < end:
            if time.perf_counter() - min(self._acknowledged_at) < CALM_S:
                return
            time.sleep(CALM_S / 5)
        raise TimeoutError(f"a partition has no acknowledgement for {CALM_TIMEOUT_S} s")

    def longest_wait_s(self, partitions: Iterable[int] = range(PARTITIONS)) -> float:
        return max([self._longest[each] for each in partitions])


# What happens to a node ---------------------------------------------------------------------------


def killed(cluster: Cluster, victim: int, load: Load) -> None:
    cluster.nodes[victim].stop(signal.SIGKILL)
    recover(cluster, victim, load)


def stopped(cluster: Cluster, victim: int, load: Load) -> None:
    cluster.nodes[victim].stop(signal.SIGTERM)
    recover(cluster, victim, load)


def paused(cluster: Cluster, victim: int, load: Load, away_s: float) -> None:
    pid = cluster.nodes[victim].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(away_s)
    finally:
        os.kill(pid, signal.SIGCONT)
    time.sleep(SETTLE_S)
    load.wait_until_calm()


def rolled(cluster: Cluster, _: int, load: Load) -> None:
    for each in IDS:
        stopped(cluster, each, load)
        wait_until_full(cluster)


def recover(cluster: Cluster, victim: int, load: Load) -> None:
    """Start the node again once others serve its partitions."""
    time.sleep(SETTLE_S)
    load.wait_until_calm()
    cluster.nodes[victim].start()


#: Ways in which the clients of the node can't know that it is gone: they wait for its answers.
SILENT = ("pause", "cut")


# The events ---------------------------------------------------------------------------------------


def longest_wait(cluster: Cluster, plan: Plan, result: Result) -> None:
    """Let nodes fail or stop in each way under a steady load, each node as often as the others."""
    ways: dict[str, Way] = {
        "kill": killed,
        "pause": partial(paused, away_s=away_s(plan)),
        "stop": stopped,
        "roll": rolled,
    }
    measure_waits(cluster, ways, plan.count(EVENTS, minimum=1), result)


def away_s(plan: Plan) -> float:
    return max(1, AWAY_S * plan.scale)


def measure_waits(cluster: Cluster, ways: Mapping[str, Way], events: int, result: Result) -> None:
    first = cluster.first
    with closing(frame_client.connect(first.port, first.host)) as connection:
        code = try_to_create(connection, TOPIC, PARTITIONS)
    assert code == 0, f"the topic can't be created: error {code}"
    wait_until_full(cluster)
    load = Load(cluster.address)
    with load.running():
        time.sleep(SETTLE_S)
        for name, way in ways.items():
            key = f"cluster.wait.{name}"
            for number in range(events):
                victim = IDS[number % len(IDS)]
                others = prepare_event(cluster, victim, load)
                way(cluster, victim, load)
                result.add(f"{key}.each", cluster.name, load.longest_wait_s())
                result.add(f"{key}.others.each", cluster.name, load.longest_wait_s(others))
                wait_until_full(cluster)
            add_percentiles(result, cluster.name, key, with_others=name in SILENT)
    if load.failed:
        result.notes.append(f"{cluster.name}: {load.failed} records were not acknowledged.")


def prepare_event(cluster: Cluster, victim: int, load: Load) -> list[int]:
    """Return the partitions that other nodes than the victim lead, once all is calm."""
    first = cluster.first
    elect_preferred_leaders(first.port, [TOPIC], PARTITIONS, first.host)
    wait_until_full(cluster)
    time.sleep(SETTLE_S)
    load.wait_until_calm()
    with closing(frame_client.connect(first.port, first.host)) as connection:
        [topic] = metadata(connection, TOPIC).topics
    load.begin_event()
    return [it.partition_index for it in topic.partitions if it.leader_id != victim]


def add_percentiles(result: Result, name: str, key: str, *, with_others: bool) -> None:
    for which in (key, f"{key}.others") if with_others else (key,):
        waits = result.figures[f"{which}.each"][name]
        result.add(f"{which}.p50", name, percentile(waits, 50))
        result.add(f"{which}.max", name, max(waits))


def wait_until_full(cluster: Cluster) -> None:
    for node in cluster.nodes.values():
        wait_until_each(node.port, [TOPIC], has_full_isr, host=node.host)
