"""`in_place.replace`: only whole changes, and wherever a function is kept."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

from tests import in_place
from tests.altered import Change

if TYPE_CHECKING:
    import pathlib
    from types import ModuleType

TEXT = """
LIMIT = 5

def plain(n=1):
    return n < LIMIT

TABLE = {"plain": plain}

class Thing:
    @property
    def size(self):
        return 1

    def made(self):
        def inner():
            return 2
        return inner

MADE = Thing().made()

def gone():
    return 3

del gone

def last():
    return 4
"""


@pytest.fixture
def module(tmp_path: pathlib.Path) -> ModuleType:
    path = tmp_path / "sample.py"
    path.write_text(TEXT)
    spec = importlib.util.spec_from_file_location("sample", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def change(module: ModuleType, original: str, replacement: str) -> list[str]:
    return in_place.replace(module, Change("sample:", original, replacement).altered)


def test_a_function_changes_wherever_it_is_kept(module: ModuleType) -> None:
    assert change(module, "n < LIMIT", "(\n\n  n > LIMIT)") == ["plain"]
    assert not module.TABLE["plain"](4)
    assert module.last.__code__.co_firstlineno == TEXT[: TEXT.index("def last")].count("\n") + 3


def test_a_method_changes_for_existing_objects(module: ModuleType) -> None:
    thing = module.Thing()
    assert change(module, "return 1", "return 8") == ["Thing.size"]
    assert thing.size == 8


@pytest.mark.parametrize(
    ("original", "replacement", "reason"),
    [
        ("LIMIT = 5", "LIMIT = 6", "more than the bodies"),
        ("plain(n=1)", "plain(n=2)", "more than the bodies"),
        ("@property", "", "more than the bodies"),
        ("return 2", "return 9", "inner has been made already"),
        ("return 3", "return 9", "gone is not in memory"),
    ],
)
def test_any_other_change_is_refused(
    module: ModuleType, original: str, replacement: str, reason: str
) -> None:
    with pytest.raises(in_place.NotInPlaceError, match=reason):
        change(module, original, replacement)
    assert (module.LIMIT, module.plain(4), module.MADE()) == (5, True, 2)


def test_a_text_that_is_not_the_loaded_one_is_refused(
    module: ModuleType, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "sample.py").write_text(TEXT.replace("return 1", "return 7"))
    with pytest.raises(in_place.NotInPlaceError, match="size is not what is loaded"):
        change(module, "return 4", "return 5")


def test_a_change_of_nothing_is_an_error(module: ModuleType) -> None:
    with pytest.raises(AssertionError, match="nothing changes"):
        in_place.replace(module, str)
