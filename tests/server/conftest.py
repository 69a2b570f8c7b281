"""A node for the server tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.server.node_process import NodeProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    started = NodeProcess(str(tmp_path / "data"), errors=str(tmp_path / "errors.txt"))
    try:
        yield started
    finally:
        started.kill_if_running()
