"""The longest wait of an idempotent producer for an acknowledgement while nodes fail or stop.

librdkafka has five requests in flight to each broker, and then waits. A connection that is cut
without an end of its process is not measured: it needs rights over the network.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from bench.beside import frame_client
from bench.beside.figures import percentile
from bench.cluster.nodes import IDS, has_full_isr, try_to_create, wait_until_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from confluent_kafka import KafkaError, Message

    from bench.beside.figures import Result
    from bench.beside.plan import Plan
    from bench.cluster.nodes import Cluster

TOPIC, PARTITIONS = "longest-wait", 6
RECORDS_PER_S = 600
#: How many nodes fail or stop, for each way.
EVENTS = 9
#: Longer than the session of a broker (9 s).
PAUSE_S = 20
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

    def longest_wait_s(self) -> float:
        return max(self._longest)


def killed(cluster: Cluster, victim: int, load: Load) -> None:
    cluster.nodes[victim].stop(signal.SIGKILL)
    recover(cluster, victim, load)


def stopped(cluster: Cluster, victim: int, load: Load) -> None:
    cluster.nodes[victim].stop(signal.SIGTERM)
    recover(cluster, victim, load)


def paused(cluster: Cluster, victim: int, load: Load) -> None:
    pid = cluster.nodes[victim].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(PAUSE_S)
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


def wait_until_full(cluster: Cluster) -> None:
    for node in cluster.nodes.values():
        wait_until_each(node.port, [TOPIC], has_full_isr)


WAYS: dict[str, Callable[[Cluster, int, Load], None]] = {
    "kill": killed,
    "pause": paused,
    "stop": stopped,
    "roll": rolled,
}


def longest_wait(cluster: Cluster, plan: Plan, result: Result) -> None:
    """Let nodes fail or stop in each way under a steady load, each node as often as the others."""
    with closing(frame_client.connect(cluster.first.port)) as connection:
        code = try_to_create(connection, TOPIC, PARTITIONS)
    assert code == 0, f"the topic can't be created: error {code}"
    wait_until_full(cluster)
    load = Load(cluster.address)
    with load.running():
        time.sleep(SETTLE_S)
        for name, way in WAYS.items():
            waits = []
            for number in range(plan.count(EVENTS, minimum=1)):
                load.wait_until_calm()
                load.begin_event()
                way(cluster, IDS[number % len(IDS)], load)
                waits.append(load.longest_wait_s())
                wait_until_full(cluster)
                time.sleep(SETTLE_S)
            result.add(f"cluster.wait.{name}.p50", cluster.name, percentile(waits, 50))
            result.add(f"cluster.wait.{name}.max", cluster.name, max(waits))
    if load.failed:
        result.notes.append(f"{cluster.name}: {load.failed} records were not acknowledged.")
