"""Python processes of Spark load the compiled pyspark of site-packages, not Spark's zip of it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pyspark
import pytest

from kraftlog.spark.worker_python import choose_python
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

VARIABLES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
ZIPS = os.path.join(os.path.dirname(pyspark.__file__), "python", "lib")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a cache that does not exist; Spark's environment variables are unset."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    for name in (*VARIABLES, "SPARK_HOME"):
        monkeypatch.setenv(name, "of another test")  # so that it is restored after the test
        monkeypatch.delenv(name)
    return tmp_path / "a cache"


def test_a_process_imports_nothing_from_the_zips(cache: Path) -> None:
    """Spark puts its zips into PYTHONPATH, again if the driver's PYTHONPATH has them already."""
    choose_python(is_local=True)
    zips = [os.path.join(ZIPS, name) for name in os.listdir(ZIPS)]
    assert len(zips) == 2
    path = [*zips, "/of a user", *zips, "*"]
    code = "import os, pyspark, py4j; print(pyspark.__file__, py4j.__file__, sep='\\n'); "
    code += "print(os.environ['PYTHONPATH'])"
    program = subprocess.run(
        [os.environ["PYSPARK_PYTHON"], "-c", code],
        env={**os.environ, "PYTHONPATH": ":".join(path)},
        capture_output=True, text=True, check=True, timeout=LIMIT_S,
    )  # fmt: skip
    *files, kept = program.stdout.splitlines()
    assert not any(".zip" in file for file in files)
    assert kept == "/of a user:*"


def test_the_users_choice_of_python_is_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    choose_python(is_local=True)
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"
    assert os.environ["PYSPARK_DRIVER_PYTHON"].startswith(str(cache))


def test_other_machines_and_another_spark_get_python_itself(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_python(is_local=True)
    choose_python(is_local=False)
    assert [os.environ[name] for name in VARIABLES] == [sys.executable] * 2
    for name in VARIABLES:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    choose_python(is_local=True)
    assert [os.environ[name] for name in VARIABLES] == [sys.executable] * 2


def test_python_is_started_directly_if_the_script_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    choose_python(is_local=True)
    assert [os.environ[name] for name in VARIABLES] == [sys.executable] * 2
