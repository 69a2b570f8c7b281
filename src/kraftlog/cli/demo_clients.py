"""The clients of `kraftlog demo`: a producer and a consumer group, each in its own thread."""

from __future__ import annotations

import json
import time
from threading import Event, Thread

from kraftlog.client.client import Client
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.client.consumer import Consumer

TOPIC, GROUP = "orders", "billing"
#: How long a request is retried; an election takes far less.
TIMEOUT_S = 300
#: The number of records that are sent at once, and the pause after them.
BATCH, PAUSE_S = 100, 0.05
#: How long the group waits for records before it checks whether to stop.
_IDLE_S = 0.5


class _Worker:
    """A thread with a client that works until `stop`; the main thread reads `error`."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._is_stopping = Event()
        self.error: Exception | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with Client(self._servers, timeout_s=TIMEOUT_S) as client:
                self._work(client)
        except Exception as error:
            self.error = error

    def _work(self, client: Client) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """Stop after the current request."""
        self._is_stopping.set()
        self._thread.join(2 * TIMEOUT_S)


class Writer(_Worker):
    """Writes orders with acks=all, and counts the acknowledged ones."""

    acknowledged = 0

    def _work(self, client: Client) -> None:
        producer = client.producer(acknowledged=self._count)
        number = 0
        while not self._is_stopping.is_set():
            for _ in range(BATCH):
                number += 1
                order = {"order": number, "customer": f"c{number % 97}", "cents": number % 10_000}
                producer.send(TOPIC, json.dumps(order), key=str(order["customer"]))
            producer.flush()
            time.sleep(PAUSE_S)

    def _count(self, records: int) -> None:
        self.acknowledged += records


class GroupReader(_Worker):
    """A member of the consumer group, which collects the offsets that it has read."""

    def __init__(self, servers: str) -> None:
        #: The partition and offset of each record.
        self.read: set[tuple[int, int]] = set()
        super().__init__(servers)

    def _work(self, client: Client) -> None:
        with client.consume(TOPIC, "beginning", group=GROUP, timeout_s=_IDLE_S) as consumer:
            while not self._is_stopping.is_set():
                self._read_all(consumer)

    def _read_all(self, consumer: Consumer) -> None:
        for record in consumer:
            self.read.add((record.partition, record.offset))
            if self._is_stopping.is_set():
                return
