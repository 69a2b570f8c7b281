"""Runs kraftlog's commands in this process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kraftlog.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Shell:
    """Runs commands against one cluster; `stderr` is the error output of the last one."""

    def __init__(
        self,
        address: str,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        self.address = address
        self.stderr = ""
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self._input = tmp_path / "input"

    def run(self, line: str, *words: str, code: int = 0) -> str:
        """Run a command line, which must end with this exit code."""
        self._capsys.readouterr()
        exit_code = main([*line.split(), *words, "--bootstrap-server", self.address])
        shown = self._capsys.readouterr()
        self.stderr = shown.err
        assert exit_code == code, shown.out + shown.err
        return shown.out

    def json(self, line: str, *words: str) -> Any:
        return json.loads(self.run(line, *words, "--json"))

    def fails(self, line: str, *words: str, code: int = 1) -> str:
        """The single error line of a failing command."""
        self.run(line, *words, code=code)
        assert self.stderr.count("\n") == 1, self.stderr
        return self.stderr

    def feed(self, text: bytes, line: str, *words: str, code: int = 0) -> str:
        """Run a command with this standard input."""
        self._input.write_bytes(text)
        with self._input.open() as file:
            self._monkeypatch.setattr("sys.stdin", file)
            return self.run(line, *words, code=code)
