"""Writes numbers with kafka-python until standard input ends, and prints their offsets.

A process of its own, because kafka-python leaves sockets open when nodes end.

    python -m tests.server.kafka_python_writer SERVERS TOPIC PARTITIONS
"""

from __future__ import annotations

import select
import sys

import kafka

from tests.time_limit import LIMIT_S

#: Number of records to send before waiting for their acknowledgements.
BATCH = 10


def main(servers: str, topic: str, partitions: int) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=servers.split(","),
        acks="all",
        reconnect_backoff_max_ms=100,
        delivery_timeout_ms=LIMIT_S * 1000,
    )
    number = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        futures = {
            i: producer.send(topic, b"%d" % i, partition=i % partitions)
            for i in range(number, number + BATCH)
        }
        number += BATCH
        for i, future in futures.items():
            metadata = future.get(LIMIT_S)
            print(i, metadata.partition, metadata.offset, flush=True)
    producer.close(LIMIT_S)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
