"""Workers never load pandas, which takes longer than many tasks run."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from kraftlog import Client
from tests.patience import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_pandas_is_loaded_by_no_task(
    our_node: str, named: Callable[[str], str], tmp_path: Path
) -> None:
    topic = named("t")
    with Client(our_node, timeout_s=LIMIT_S) as client:
        client.create_topic(topic, partitions=1)
    words = ["-m", "tests.spark.worker_tasks", our_node, topic, str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    found = dict(line.split() for line in done.stdout.splitlines())
    assert found == dict.fromkeys(("start", "sink", "archive", "decode", "verify"), "False")
