"""`altered.Change`: a statement of a named function is found, replaced and indented, or refused."""

from __future__ import annotations

from difflib import unified_diff

import pytest

from tests.altered import Change

TEXT = """\
LIMIT = 5

if LIMIT:
    def chosen():
        return LIMIT

class Thing:
    kind: int = 1

    @property
    def size(self):
        return 1

    @size.setter
    def size(self, value):
        self._size = value

    def grow(self, by):
        if by > 0 and big:
            self.size = call(
                by,
            )
            return  # at once
        return

    class Inner:
        def grow(self):
            return 2

def grow():
    return 1
"""
GROW = "m:Thing.grow"


@pytest.mark.parametrize(
    ("function", "original", "replacement", "difference"),
    [
        ("m:grow", "return 1", "return 3", "-    return 1|+    return 3"),
        ("m:Thing.Inner.grow", "2", "3", "-            return 2|+            return 3"),
        ("m:LIMIT", "5", "6", "-LIMIT = 5|+LIMIT = 6"),
        ("m:Thing.kind", "1", "2", "-    kind: int = 1|+    kind: int = 2"),
        ("m:chosen", "LIMIT", "0", "-        return LIMIT|+        return 0"),
        ("m:Thing.size", "= value", "= 0", "-        self._size = value|+        self._size = 0"),
        ("m:Thing.size", "@property", "", "-    @property"),
        ("m:Thing", "return 2", "", "-            return 2"),
        ("m:", "LIMIT:", "0:", "-if LIMIT:|+if 0:"),
        (GROW, "\n    by > 0 and\n", "", "-        if by > 0 and big:|+        if big:"),
        (GROW, "and big", "", "-        if by > 0 and big:|+        if by > 0:"),
        (GROW, "by,", "", "-                by,"),
    ],
)
def test_a_statement_is_found_by_the_name_of_its_function(
    function: str, original: str, replacement: str, difference: str
) -> None:
    assert changed_lines(Change(function, original, replacement)) == difference.split("|")


@pytest.mark.parametrize(
    ("original", "replacement", "difference"),
    [
        (
            "self.size = call(by,)",
            "if by:\n    return",
            """\
-            self.size = call(
-                by,
-            )
+            if by:
+                return""",
        ),
        (
            "    return # at once\nreturn",
            "    pass\n\nreturn 1",
            """\
-            return  # at once
-        return
+            pass
+
+        return 1""",
        ),
        (
            "                return # at once",
            "            pass",
            """\
-            return  # at once
+        pass""",
        ),
        (
            "big:",
            "(\n    big\n):\n    pass",
            """\
-        if by > 0 and big:
+        if by > 0 and (
+            big
+        ):
+            pass""",
        ),
    ],
)
def test_the_replacement_is_indented_as_the_original_is(
    original: str, replacement: str, difference: str
) -> None:
    assert changed_lines(Change(GROW, original, replacement)) == difference.split("\n")


def changed_lines(change: Change) -> list[str]:
    before, after = TEXT.splitlines(), change.altered(TEXT).splitlines()
    lines = list(unified_diff(before, after, n=0, lineterm=""))[2:]
    return [line for line in lines if not line.startswith("@@")]


@pytest.mark.parametrize(
    ("function", "original", "times"),
    [
        ("m:grow", "return 2", 0),
        ("m:Thing.grow", "def grow(self): return 2", 0),
        ("m:Thing.grow", "return", 2),
        ("m:Thing.size", "size", 4),
    ],
)
def test_a_statement_that_is_not_there_once_is_an_error(
    function: str, original: str, times: int
) -> None:
    with pytest.raises(ValueError, match=f"{function} has '.*' {times} times"):
        Change(function, original, "pass").altered(TEXT)


@pytest.mark.parametrize("function", ["m:Thing.shrink", "m:grow.Thing", "m:by"])
def test_a_function_that_is_not_there_is_an_error(function: str) -> None:
    with pytest.raises(ValueError, match=f"there is no {function}"):
        Change(function, "return", "pass").altered(TEXT)


def test_a_file_is_found_by_the_name_of_its_module() -> None:
    change = Change("kraftlog.errors:ErrorCode", "NONE = 0", "NONE = 5")
    assert change.path == "src/kraftlog/errors.py"
    assert "NONE = 5" in change.altered_file()
