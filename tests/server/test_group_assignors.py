"""group.consumer.assignors: names of built-in assignors, and of other packages' entry points."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kraftlog.errors import ConfigError
from kraftlog.groups.assignors.builtin import BUILTIN_ASSIGNORS
from kraftlog.server.group_assignors import find_assignors
from kraftlog.steps import result_of
from tests.groups.assignors.test_uniform import T1, by_name, member, subscribed

if TYPE_CHECKING:
    from pathlib import Path

ENTRY_POINTS = """[kraftlog.group.assignors]
first-gets-all = test_only_assignors:first_gets_all
missing = test_only_assignors:missing
broken = test_only_broken:assign
number = test_only_assignors:number
"""
MODULE = """
def first_gets_all(members, topics):
    first = min(members)
    return {first: {t: range(topics.partition_count(t)) for t in members[first].topic_ids}}

number = 5
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that offers assignors."""
    info = tmp_path / "test_only_assignors-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: test_only_assignors\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "test_only_assignors.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_built_in_assignors_are_found_in_the_order_of_their_names() -> None:
    assert list(find_assignors(["range", "uniform"])) == ["range", "uniform"]
    assert find_assignors(["uniform"]) == {"uniform": BUILTIN_ASSIGNORS["uniform"]}


@pytest.mark.usefixtures("package")
def test_an_assignor_of_another_package_is_used_by_its_name() -> None:
    found = find_assignors(["first-gets-all", "uniform"])
    assert list(found) == ["first-gets-all", "uniform"]
    members = by_name(member("a", T1), member("b", T1))
    result = result_of(found["first-gets-all"](members, subscribed(t1=2)))
    assert result == {"a": {T1: {0, 1}}}


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["unifrom"], "unifrom: expected one of uniform, range, "),
        (["uniform", "range", "uniform"], "uniform is there twice"),
        (["missing"], "has no attribute 'missing'"),
        (["broken"], "No module named 'test_only_broken'"),
        (["number"], "5 is not a function"),
    ],
    ids=["unknown", "twice", "missing", "broken", "number"],
)
def test_names_that_lead_to_no_assignor_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_assignors(names)


def test_built_in_names_do_not_load_the_entry_points() -> None:
    code = (
        "import sys; from kraftlog.server.group_assignors import find_assignors as find;"
        "find(['uniform', 'range']); sys.exit('importlib.metadata' in sys.modules)"
    )
    # Without site, which may load anything.
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        check=False,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0
