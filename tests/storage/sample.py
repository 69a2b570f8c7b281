"""A log directory with all kinds of records, for checks with other readers of Kafka's files.

python -m tests.storage.sample DIRECTORY
"""

from __future__ import annotations

import os
import sys

from kraftlog.server.files import OsFiles
from kraftlog.storage.config import LogConfig
from kraftlog.storage.directory import LogDirectory
from kraftlog.storage.disk import HandleCache
from tests.storage.making import T0, batch, marker, put

TOPIC_ID = bytes(range(16))
SAMPLE = ("sample", 0)


def write_sample(path: str) -> str:
    """Create a directory with one cleanly closed log; return the log's folder.

    The log has several segments with indexes, three leader epochs, idempotent and transactional
    producers, and committed, aborted and open transactions.
    """
    os.makedirs(path, exist_ok=True)
    files = OsFiles()
    logs = LogDirectory(files, path, HandleCache(files, 16))
    log = logs.create(SAMPLE, TOPIC_ID, LogConfig(segment_bytes=40_000, index_interval_bytes=1000))
    sequence = 0
    for number in range(300):
        end = log.end_offset
        idempotent = batch(
            end,
            2,
            epoch=number // 100,
            size=150,
            timestamp_ms=T0 + 7 * number,
            producer_id=1,
            sequence=sequence,
        )
        plain = batch(end + 2, 3, epoch=number // 100, timestamp_ms=T0 + 7 * number + 3)
        put(log, idempotent, plain)
        sequence += 2
        if number % 50 == 0:
            end = log.end_offset
            put(
                log,
                batch(
                    end,
                    epoch=number // 100,
                    producer_id=2,
                    sequence=number // 50,
                    transactional=True,
                ),
            )
            put(log, marker(end + 1, 2, commit=number % 100 == 0, epoch=number // 100))
    put(log, batch(log.end_offset, epoch=2, producer_id=3, transactional=True))
    logs.close(broker_epoch=5)
    return log.folder


if __name__ == "__main__":
    sys.stdout.write(write_sample(sys.argv[1]) + "\n")
