"""Spark repeats the tasks of killed Python workers: a replay writes no record again."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from kraftlog import Client
from tests.house_rules import ROOT
from tests.spark.archives import values
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    *(pytest.mark.long, pytest.mark.slow, pytest.mark.spark),
    pytest.mark.xdist_group("jvm"),
]
COUNT = 60
#: A `sitecustomize` module, which every Python process loads: it kills each worker of Spark once it
#: has sent some batches, until there are as many files in the folder as workers to kill.
KILL_WORKERS = """\
import os, signal
from kraftlog.client.connection import Connection
from kraftlog.wire.messages.produce import ProduceRequest

FOLDER, send, sent = {folder!r}, Connection.send, 0

def counted(self, request, *arguments, **options):
    global sent
    send(self, request, *arguments, **options)
    if isinstance(request, ProduceRequest):
        sent += 1
        if sent == 10 and len(os.listdir(FOLDER)) < 3:
            open(os.path.join(FOLDER, str(os.getpid())), "x").close()
            os.kill(os.getpid(), signal.SIGKILL)

Connection.send = counted
"""


def test_tasks_of_killed_workers_repeat_no_record(
    our_node: str, named: Callable[[str], str], tmp_path: Path
) -> None:
    """The records of two tasks are in batches of one, so each attempt ends among its batches."""
    topic = named("t")
    table = pa.table(
        {
            "value": [str(number).encode() for number in range(COUNT)],
            "partition": pa.array([number % 2 for number in range(COUNT)], pa.int32()),
            "offset": [number // 2 for number in range(COUNT)],
        }
    )
    write_deltalake(str(tmp_path / "old"), table)
    (tmp_path / "killed").mkdir()
    (tmp_path / "sitecustomize.py").write_text(KILL_WORKERS.format(folder=f"{tmp_path}/killed"))
    (tmp_path / "client.properties").write_text("batch.size=1\n")
    with Client(our_node, timeout_s=LIMIT_S) as client:
        client.create_topic(topic, partitions=2)
        words = [f"{tmp_path}/old", "--to", topic, "-b", our_node]
        words += ["-c", f"{tmp_path}/client.properties", "--master", "local[2,4]"]
        pipeline = subprocess.run(
            [sys.executable, "-m", "kraftlog", "pipeline", "replay", *words],
            env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
            capture_output=True,
            text=True,
            timeout=3 * LIMIT_S,
            check=False,
        )
        assert pipeline.returncode == 0, pipeline.stderr
        assert "60 written now, 0 were there already" in pipeline.stdout
        assert len(os.listdir(tmp_path / "killed")) == 3
        assert values(client, topic) == {
            partition: [str(number).encode() for number in range(partition, COUNT, 2)]
            for partition in (0, 1)
        }
