"""Workers never load pandas, which would take longer than many tasks run."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from kraftlog import Client
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_pandas_is_loaded_by_no_task(
    our_node: str, named: Callable[[str], str], tmp_path: Path
) -> None:
    topic = named("t")
    with Client(our_node, timeout_s=LIMIT_S) as client:
        client.create_topic(topic, partitions=1)
    arguments = ["-m", "tests.spark.worker_tasks", our_node, topic, str(tmp_path)]
    program = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert program.returncode == 0, program.stderr
    loaded_after = dict(line.split() for line in program.stdout.splitlines())
    assert loaded_after == dict.fromkeys(("start", "sink", "archive", "decode", "verify"), "False")
