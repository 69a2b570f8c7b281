"""Garbage collections after a worker's tasks do not visit its modules."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable

_TASK = """
import gc, sys
from kraftlog.spark.options import source_options
from kraftlog.spark.ranges import OffsetRange
from kraftlog.spark.source import BatchReader, TaskRange

address, topic = sys.argv[1:]
options = {"kafka.bootstrap.servers": address, "subscribe": topic}
reader = BatchReader(source_options(options, is_stream=False))
(rows,) = reader.read(TaskRange(OffsetRange(topic, 0, 0, 1)))
print(rows.num_rows, gc.get_freeze_count() > 1000)
"""


@pytest.mark.parametrize(("is_reused", "is_frozen"), [("1", "True"), (None, "False")])
def test_a_task_freezes_modules_only_in_a_reused_worker(
    our_node: str, named: Callable[[str], str], is_reused: str | None, is_frozen: str
) -> None:
    topic = named("t")
    with Client(our_node, timeout_s=LIMIT_S) as client:
        client.create_topic(topic, partitions=1)
        client.produce(topic, b"value")
    environment = {**os.environ, **({"SPARK_REUSE_WORKER": is_reused} if is_reused else {})}
    program = subprocess.run(
        [sys.executable, "-c", _TASK, our_node, topic],
        capture_output=True, text=True, timeout=LIMIT_S, check=False, env=environment,
    )  # fmt: skip
    assert program.stdout.split() == ["1", is_frozen], program.stderr
