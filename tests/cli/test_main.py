"""The command line itself: help, version, unknown commands."""

from __future__ import annotations

import pytest

from kraftlog import __version__
from kraftlog.cli import main


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        ([], 2, "usage: kraftlog COMMAND"),
        (["--help"], 0, "  start a node\n"),
        (["--version"], 0, f"kraftlog {__version__}"),
        (["xyz"], 2, "unknown command 'xyz': kraftlog --help lists the commands\n"),
        (["topic"], 2, "unknown command 'topic': did you mean topics? kraftlog --help lists"),
        (["start", "--data", "/dev/null/a"], 1, "kraftlog: /dev/null/a: Not a directory\n"),
        (["start", "/dev/null/a"], 1, "kraftlog: /dev/null/a: Not a directory\n"),
    ],
)
def test_the_command_line_prints_help_or_an_error_with_its_exit_code(
    capsys: pytest.CaptureFixture[str], words: list[str], code: int, expected: str
) -> None:
    assert main(words) == code
    shown = capsys.readouterr()
    assert expected in shown.out + shown.err


def test_help_of_a_command_is_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["help", "topics"])
    assert capsys.readouterr().out.startswith("usage: kraftlog topics --list")
