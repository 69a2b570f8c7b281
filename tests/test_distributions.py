"""The two distributions of this repository: kraftlog, and its simulator."""

from __future__ import annotations

import os
import tomllib
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from kraftlog.cli import main
from kraftlog.version import VERSION
from tests.house_rules import ROOT

if TYPE_CHECKING:
    from typing import Any


def project(folder: str) -> dict[str, Any]:
    with open(os.path.join(ROOT, folder, "pyproject.toml"), "rb") as file:
        project: dict[str, Any] = tomllib.load(file)["project"]
    return project


def test_both_have_the_version_of_the_code_and_the_same_pythons() -> None:
    kraftlog, simulator = project("."), project("simulator")
    assert kraftlog["version"] == simulator["version"] == VERSION
    assert simulator["dependencies"] == [f"kraftlog=={VERSION}"]
    assert kraftlog["requires-python"] == simulator["requires-python"]


@pytest.mark.parametrize(
    ("command", "name"),
    [("simulate --runs 2", "simulate"), ("pipeline simulate --seeds 1:3", "pipeline")],
)
def test_without_the_simulator_its_commands_say_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, name: str
) -> None:
    def find_all_but_the_simulator(package: str) -> object:
        return None if package == "kraftlog_simulator" else find_spec("kraftlog")

    for module in ("simulate", "pipeline"):
        monkeypatch.setattr(f"kraftlog.cli.{module}.find_spec", find_all_but_the_simulator)
    assert main(command.split()) == 1
    assert capsys.readouterr().err == (
        f"kraftlog {name}: not installed: kraftlog-simulator; "
        "install it from kraftlog's clone with pip install ./simulator\n"
    )
