"""Spark runs two attempts of a task at the same time: a replay writes no record twice.

The sink writes records of both attempts, and the header of a batch tells readers which are the
same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from kraftlog import Client
from kraftlog.spark.sink_options import ROW_ID_HEADER
from tests.house_rules import ROOT
from tests.spark.archives import values
from tests.spark.standalone import StandaloneCluster
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    *(pytest.mark.long, pytest.mark.slow, pytest.mark.spark),
    pytest.mark.xdist_group("jvm"),
]
COUNT = 60
#: A `sitecustomize` module, which every Python process loads: before its tenth request with records
#: of partition 1, an attempt waits until two attempts of this task are there. So Spark finds the
#: task slow, starts a second attempt, and both then write at the same time.
MEET = """\
import os, time
from kraftlog.client.connection import Connection
from kraftlog.wire.messages.produce import ProduceRequest

FOLDER, send, sent = {folder!r}, Connection.send, {{}}

def meet(topic):
    from pyspark import TaskContext
    context = TaskContext.get()
    sent[topic] = sent.get(topic, 0) + 1
    if sent[topic] == 10:
        open(os.path.join(FOLDER, f"{{topic}}.{{context.attemptNumber()}}"), "x").close()
        deadline = time.monotonic() + {limit_s}
        while len([each for each in os.listdir(FOLDER) if each.startswith(topic + ".")]) < 2:
            assert time.monotonic() < deadline, "no second attempt has come"
            time.sleep(0.05)

def met(self, request, *arguments, **options):
    if isinstance(request, ProduceRequest):
        for topic in request.topic_data:
            if any(part.index == 1 for part in topic.partition_data):
                meet(topic.name)
    send(self, request, *arguments, **options)

Connection.send = met
"""


def test_two_attempts_of_a_task_repeat_no_record(
    our_node: str, named: Callable[[str], str], tmp_path: Path
) -> None:
    replayed, written = named("replayed"), named("written")
    table = pa.table(
        {
            "value": [str(number).encode() for number in range(COUNT)],
            "partition": pa.array([number % 2 for number in range(COUNT)], pa.int32()),
            "offset": [number // 2 for number in range(COUNT)],
        }
    )
    write_deltalake(str(tmp_path / "old"), table)
    for name in ("met", "events"):
        (tmp_path / name).mkdir()
    module = MEET.format(folder=f"{tmp_path}/met", limit_s=LIMIT_S)
    (tmp_path / "sitecustomize.py").write_text(module)
    environment = {**os.environ, "PYTHONPATH": ROOT, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (
        Client(our_node, timeout_s=LIMIT_S) as client,
        StandaloneCluster(str(tmp_path), workers=2, environment=environment) as cluster,
    ):
        for topic in (replayed, written):
            client.create_topic(topic, partitions=2)
        words = [cluster.url, our_node, f"{tmp_path}/old", replayed, written, str(tmp_path)]
        program = subprocess.run(
            [sys.executable, "-m", "tests.spark.speculation_program", *words],
            env={**environment, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
            capture_output=True,
            text=True,
            timeout=3 * LIMIT_S,
            check=False,
        )
        assert program.returncode == 0, program.stderr
        attempts = [f"{topic}.{attempt}" for topic in (replayed, written) for attempt in (0, 1)]
        assert sorted(os.listdir(tmp_path / "met")) == sorted(attempts)
        assert len(speculative_tasks(tmp_path / "events")) >= 2
        assert "60 written now, 0 were there already" in program.stdout
        expected = {
            partition: [str(number).encode() for number in range(partition, COUNT, 2)]
            for partition in (0, 1)
        }
        assert values(client, replayed) == expected
        once, count = by_row_id(client, written)
        assert {partition: [*rows.values()] for partition, rows in once.items()} == expected
        assert count > COUNT, "both attempts of the sink have written"


def speculative_tasks(folder: Path) -> set[tuple[int, int]]:
    """Stage and number of the tasks of which Spark started a speculative attempt."""
    [log] = folder.iterdir()
    with log.open(encoding="utf-8") as lines:
        events = [json.loads(line) for line in lines]
    return {
        (event["Stage ID"], event["Task Info"]["Index"])
        for event in events
        if event["Event"] == "SparkListenerTaskStart" and event["Task Info"]["Speculative"]
    }


def by_row_id(client: Client, topic: str) -> tuple[dict[int, dict[bytes, bytes | None]], int]:
    """The values of each partition, those with the same row id once; and how many there were."""
    once: dict[int, dict[bytes, bytes | None]] = {}
    count = 0
    with client.consume(topic, start="beginning", until_end=True) as records:
        for record in records:
            [row_id] = [value for name, value in record.headers if name == ROW_ID_HEADER]
            assert row_id is not None
            rows = once.setdefault(record.partition, {})
            assert rows.setdefault(row_id, record.value) == record.value
            count += 1
    return once, count
