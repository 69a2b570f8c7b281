"""The simulator finds every bug that is put in on purpose, by a run that is pinned with it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

NAMES = sorted(
    name.removesuffix(".py")
    for name in os.listdir(os.path.dirname(__file__))
    if name.endswith(".py") and not name.startswith(("test_", "__")) and name != "mutant.py"
)


@pytest.mark.parametrize("name", NAMES)
def test_mutant_is_killed(name: str) -> None:
    """Q37: in a process of its own, as the module is loaded changed."""
    played = subprocess.run(
        [sys.executable, "-m", "tests.mutants.mutant", name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert played.returncode == 0, played.stdout + played.stderr
    assert played.stdout.startswith("killed by run 1: ")


def test_there_are_as_many_as_there_were() -> None:
    assert len(NAMES) >= 15
