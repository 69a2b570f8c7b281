"""Rows pass between Spark and Python by Unix domain sockets that only the user can open."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from kraftlog.spark import worker_sockets
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

DIRECTORY = "spark.python.unix.domain.socket.dir"


PROGRAM = f"""\
from kraftlog.spark import worker_sockets
settings = worker_sockets.socket_settings()
print(len(settings), settings.get({DIRECTORY!r}))
"""


def settings_in(temporary: Path) -> str:
    """What a process has as settings whose temporary directory this is."""
    program = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True, text=True, check=True, timeout=LIMIT_S,
    )  # fmt: skip
    return program.stdout


def test_a_directory_lasts_as_long_as_its_process() -> None:
    with TemporaryDirectory() as folder:
        assert settings_in(Path(folder)).startswith(f"2 {folder}/kraftlog-")
        assert not os.listdir(folder)


def test_spark_uses_tcp_if_no_socket_can_be_created(tmp_path: Path) -> None:
    """The path of the directory is too long for the name of a socket."""
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    assert settings_in(folder) == "0 None\n"
    assert not os.listdir(folder)


def test_spark_uses_tcp_if_no_directory_can_be_created(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(prefix: str) -> str:
        raise PermissionError(prefix)

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    assert worker_sockets.socket_settings.__wrapped__() == {}


def test_the_sockets_of_a_session_are_private(spark: SparkSession) -> None:
    """Spark and its workers exchange no secret over them."""
    spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()
    directory = spark.sparkContext.getConf().get(DIRECTORY)
    assert directory is not None
    assert stat.S_IMODE(os.stat(directory).st_mode) == stat.S_IRWXU
    assert any(name.endswith(".sock") for name in os.listdir(directory))
