"""A shell on each of the clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def shell(
    address: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Shell:
    """On a node of ours, and on Kafka."""
    return Shell(address, capsys, monkeypatch, tmp_path)


@pytest.fixture
def kafka_shell(
    kafka: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Shell:
    return Shell(kafka, capsys, monkeypatch, tmp_path)
