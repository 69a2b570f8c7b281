"""Shells against kraftlog and against Kafka."""

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
    """A shell against each cluster in turn: kraftlog's, then Kafka's."""
    return Shell(address, capsys, monkeypatch, tmp_path)


@pytest.fixture
def kafka_shell(
    kafka: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Shell:
    return Shell(kafka, capsys, monkeypatch, tmp_path)
