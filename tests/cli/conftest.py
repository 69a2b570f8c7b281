"""A shell for each cluster."""

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
    """A shell on kraftlog, and one on Kafka."""
    return Shell(address, capsys, monkeypatch, tmp_path)


@pytest.fixture
def kafka_shell(
    kafka: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Shell:
    return Shell(kafka, capsys, monkeypatch, tmp_path)
