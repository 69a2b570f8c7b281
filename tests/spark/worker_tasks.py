"""`python -m tests.spark.worker_tasks ADDRESS TOPIC LAKE`: the work of tasks, without Spark.

It writes rows to the topic, archives them, decodes others, and verifies the archive. After each
step it prints whether pandas is loaded.
"""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pyarrow as pa

from kraftlog.client.batch_sender import BatchSender
from kraftlog.client.client import Client
from kraftlog.records.arrow import byte_strings, numbers
from kraftlog.spark.lake.decode import Decoding, decoder_of
from kraftlog.spark.lake.delta_table import DeltaArchive
from kraftlog.spark.lake.layout import RAW
from kraftlog.spark.lake.source import ArchiveReader
from kraftlog.spark.lake.state import ArchiveState
from kraftlog.spark.lake_check.compare import ComparedTopic, compare
from kraftlog.spark.lake_check.plan import Range
from kraftlog.spark.ranges import OffsetRange
from kraftlog.spark.row_producer import RowProducer
from kraftlog.spark.sink_options import sink_options
from kraftlog.spark.source import TaskRange

COUNT = 3


def main(address: str, topic: str, lake: str) -> None:
    print_step("start")
    with Client(address) as client:
        write(client, address, topic)
        print_step("sink")
        path = archive(address, topic, lake)
        print_step("archive")
        decode()
        print_step("decode")
        verify(client, address, topic, path)
        print_step("verify")


def print_step(step: str) -> None:
    print(step, "pandas" in sys.modules)


def write(client: Client, address: str, topic: str) -> None:
    texts = byte_strings([b"a", b"b", b"c"], pa.string())
    times = numbers(np.array([1, 2, 3]), pa.timestamp("us", tz="UTC"))
    nulls = np.array([True, False, False])
    indexes = numbers(np.zeros(COUNT, np.int32), pa.int32(), nulls)
    rows = pa.RecordBatch.from_arrays(
        [texts, texts, times, indexes], names=["key", "value", "timestamp", "partition"]
    )
    options = sink_options({"kafka.bootstrap.servers": address, "topic": topic})
    sender = BatchSender(client.cluster, is_idempotent=True)
    producer = RowProducer(client.cluster, sender, options, task="0")
    producer.add(rows)
    producer.flush()
    sender.close()


def archive(address: str, topic: str, lake: str) -> str:
    """Archive the records; return the path of the file."""
    state = ArchiveState(topic=topic, topic_id="", decode="raw", offsets={0: 0})
    table = DeltaArchive.create(lake, state, RAW, by_date=True)
    reader = ArchiveReader(
        {
            "kafka.bootstrap.servers": address,
            "subscribe": topic,
            "archive.directory": lake,
            "archive.decoding": json.dumps(Decoding("raw").__dict__),
            "archive.registrySecrets": "{}",
        }
    )
    (rows,) = reader.read(TaskRange(OffsetRange(topic, 0, 0, COUNT)))
    outcome = json.loads(rows.column("outcome")[0].as_py())
    assert outcome["rows"] == COUNT
    return os.path.join(table.path, outcome["files"][0]["path"])


def decode() -> None:
    """Decode JSON and text, each with a second value that becomes a dead letter."""
    schema = '{"type": "object", "properties": {"id": {"type": "integer"}}}'
    values = byte_strings([b'{"id": 1}', b"\xff"], pa.binary())
    offsets = numbers(np.array([0, 1]), pa.int64())
    raw = pa.RecordBatch.from_arrays(
        [values if field.name == "value" else offsets if field.name == "offset" else
         pa.nulls(2, field.type) for field in RAW], schema=RAW,
    )  # fmt: skip
    json_columns = RAW.remove(RAW.get_field_index("value")).append(pa.field("id", pa.int64()))
    for decoding, columns in ((Decoding("json", schema), json_columns), (Decoding("string"), RAW)):
        decoder = decoder_of(decoding.__dict__, columns, is_new=False)
        assert decoder is not None
        decoded = decoder.decode(raw)
        assert (len(decoded.rows), [*decoded.bad]) == (1, [1])


def verify(client: Client, address: str, topic: str, path: str) -> None:
    columns = ("key", "value", "timestamp", "timestampType", "headers")
    compared_topic = ComparedTopic(
        address, client.cluster.timeout_s, 0, columns, False, {0: (0, COUNT)}, {}
    )
    result = compare(Range(topic, 0, 0, COUNT, (path,), COUNT), compared_topic)
    assert (result.lake, result.findings) == (COUNT, ())


if __name__ == "__main__":
    main(*sys.argv[1:])
