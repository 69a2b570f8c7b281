"""The repository keeps the rules of `tests/house_rules.py`, and each rule detects a violation."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from tests import house_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

#: In one worker, as every file is read and parsed once there.
pytestmark = pytest.mark.xdist_group("house rules")


@pytest.fixture(scope="module")
def files() -> Iterator[dict[str, str]]:
    """All files. GC is off, as traversing their parsed trees takes longer than parsing them."""
    gc.disable()
    yield house_rules.repository()
    house_rules.parsed.cache_clear()
    gc.enable()


def in_src(text: str) -> dict[str, str]:
    return {"src/kraftlog/a.py": text}


#: Rule -> pattern, a text with a match, one without. `WORKPLACE` matches references to how the
#: work itself is organised.
BANNED = {
    "workplace": (house_rules.WORKPLACE, "see issue #12", "the fetch session ends; two issues"),
    "session": (house_rules.WORKPLACE, "done in the last session", "scope='session'"),
    "machine path": (house_rules.MACHINE_PATH, "open('/home/me/x')", "docs/work/home.md, ~/work/x"),
    "registry": (house_rules.REGISTRY_HOST, "see https://pypi.org/x", "from PyPI"),
    "unfinished": (house_rules.UNFINISHED, "# TODO later", "mastodon"),
    "hidden skip": (house_rules.HIDDEN_SKIP, "pytest.importorskip('x')", "pytest.skip('x')"),
}


@pytest.mark.parametrize("rule", BANNED)
def test_no_file_contains_banned_words(files: dict[str, str], rule: str) -> None:
    pattern, bad, good = BANNED[rule]
    assert list(house_rules.banned(pattern, files)) == []
    assert len(list(house_rules.banned(pattern, in_src(f"{good}\n{bad}\n")))) == 1
    assert list(house_rules.banned(pattern, in_src(good))) == []


def test_no_file_is_a_stray(files: dict[str, str]) -> None:
    assert list(house_rules.stray_files(files)) == []
    stray = ["uv.lock", "a/package-lock.json", "b.orig", "x.egg-info/PKG", "lib/kafka.jar"]
    assert list(house_rules.stray_files([*stray, "src/lock.py", "storage/log.py"])) == stray


def test_summaries_of_docstrings_are_short(files: dict[str, str]) -> None:
    assert list(house_rules.long_summaries(files)) == []
    for length, complaints in ((100, 0), (101, 1)):
        text = f'def f():\n    """{"x" * length}\n\n    {"y" * 101}"""\n'
        assert len(list(house_rules.long_summaries(in_src(text)))) == complaints


def test_names_of_tests_are_short(files: dict[str, str]) -> None:
    assert list(house_rules.long_test_names(files)) == []
    for length, complaints in ((70, 0), (71, 1)):
        text = f"def {'test_'.ljust(length, 'x')}(): pass\ndef {'x' * 71}(): pass\n"
        assert len(list(house_rules.long_test_names({"tests/test_a.py": text}))) == complaints


def test_a_partition_is_changed_only_by_its_own_methods(files: dict[str, str]) -> None:
    assert list(house_rules.partition_writes(files)) == []
    place = "src/kraftlog/replication/partition.py"
    text = "partition.start = 1\nappend.partition.end += 1\nx = partition.start\npartition.x = 1\n"
    complaints = list(house_rules.partition_writes({place: files[place], **in_src(text)}))
    assert [line.rpartition(" ")[2] for line in complaints] == [
        "partition.start",
        "append.partition.end",
    ]


def modules(**imports: str) -> dict[str, str]:
    """Files of src: `a__b="c"` makes src/kraftlog/a/b.py, which imports kraftlog.c."""
    return {
        f"src/kraftlog/{name.replace('__', '/')}.py": f"if X:\n  from kraftlog.{module} import y\n"
        for name, module in imports.items()
    }


def test_no_import_circle_is_too_long_or_joins_folders(files: dict[str, str]) -> None:
    assert list(house_rules.import_circles(files)) == []
    three = modules(a="b", b="c", c="a")
    assert list(house_rules.import_circles(three)) == []
    four = modules(a="b", b="c", c="d", d="a")
    assert len(list(house_rules.import_circles(four))) == 1
    there_and_back = modules(n__a="n.f.b", n__f__b="n.c", n__f__d="n.a", n__c="z")
    assert list(house_rules.import_circles(there_and_back)) == [
        "a circle of folders: kraftlog.n.a, kraftlog.n.f"
    ]
    assert list(house_rules.import_circles(modules(n__a="n.f.b", n__f__b="n.f.d"))) == []


def test_no_name_is_a_former_private_word(files: dict[str, str]) -> None:
    """Names that we coined for things that have a usual name; variables are not checked."""
    assert list(house_rules.private_words(files)) == []
    bad = {"src/kraftlog/upkeep.py": "class PassedOn: pass\ndef f(errands): governing = 1\n"}
    assert len(list(house_rules.private_words(bad))) == 3


@pytest.mark.parametrize(
    "bare",
    [
        "# type: ignore",
        "# type: ignore[x]",
        "# noqa",
        "# noqa: S102",
        "# noqa - why",
        "# pragma: x",
    ],
)
def test_waivers_have_reasons(files: dict[str, str], bare: str) -> None:
    assert list(house_rules.bare_waivers(files)) == []
    assert len(list(house_rules.bare_waivers(in_src(f"x = 1  {bare}\n")))) == 1
    reasoned = f"x = 1  {bare} - why\ny = '{bare}'\n"
    is_complete = "[" in bare or ": S" in bare or "pragma" in bare
    assert (list(house_rules.bare_waivers(in_src(reasoned))) == []) == is_complete


def test_every_name_of_src_is_used(files: dict[str, str]) -> None:
    assert list(house_rules.unused_names(files, house_rules.UNUSED)) == []
    text = "def lonely(): pass\n# lonely\ndef called(): pass\ncalled()\nclass Named: pass\n"
    dead = {**in_src(text), "tests/test_a.py": "x = 'a.Named'\n'''lonely in prose'''\n"}
    assert list(house_rules.unused_names(dead, {})) == ["src/kraftlog/a.py:lonely is used nowhere"]
    allowed = {"src/kraftlog/a.py:lonely": "used by Spark", "src/kraftlog/a.py:called": "once"}
    assert list(house_rules.unused_names(dead, allowed)) == [
        "src/kraftlog/a.py:called fits nothing that is unused: take it off the list"
    ]


def test_test_modules_say_what_they_test(files: dict[str, str]) -> None:
    assert list(house_rules.modules_without_docstring(files)) == []
    mute = {"tests/a/test_b.py": "x = 1\n", "tests/a/test_c.py": "'''C.'''\n", "tests/b.py": ""}
    assert len(list(house_rules.modules_without_docstring(mute))) == 1


def test_every_link_of_the_docs_has_a_target(files: dict[str, str]) -> None:
    assert list(house_rules.broken_links(files, files)) == []
    docs = {
        "docs/a.md": "[b](b.md) [h](b.md#the-way) [web](https://x.y) [up](../src) `[no](code)`",
        "docs/b.md": "# The way!",
        "src/x.py": "",
    }
    assert list(house_rules.broken_links(docs, docs)) == []
    broken = {**docs, "docs/c.md": "[a](d.md) [b](b.md#nowhere) [c](#here)"}
    assert len(list(house_rules.broken_links(broken, broken))) == 3
