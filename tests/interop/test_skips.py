"""Skips are reported once per reason; in CI a skip that is not allowed is a failure."""

from __future__ import annotations

import pytest

from tests.interop.skips import ALLOWED, allowed_skips, forbidden_skip

TESTS = """
import pytest

@pytest.mark.interop
@pytest.mark.parametrize("n", [1, 2])
def test_needs_kcat(n):
    pytest.skip("kcat: not on PATH")

@pytest.mark.interop
@pytest.mark.xfail(reason="known", strict=False)
def test_known_difference():
    assert False

@pytest.mark.spark
def test_needs_spark():
    pytest.skip("Apache Spark: not installed")

def test_ordinary():
    pytest.skip("not on this system")
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\nmarkers =\n  interop: needs others\n  spark: runs Spark\n")
    pytester.makepyfile(TESTS)
    return pytester


def run(project: pytest.Pytester) -> pytest.RunResult:
    return project.runpytest("-p", "tests.interop.skips", "-p", "no:cacheprovider")


def test_skips_are_reported_in_one_line_per_reason(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    result = run(project)
    result.assert_outcomes(skipped=4, xfailed=1)
    result.stdout.fnmatch_lines(["2 interop tests skipped: kcat: not on PATH"])
    result.stdout.no_fnmatch_line("*tests skipped: not on this system")


def test_in_ci_a_skipped_interop_test_fails(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    result = run(project)
    result.assert_outcomes(failed=3, skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(["*must not be skipped in CI (kcat: not on PATH)*"])


def test_an_allowed_skip_names_the_test_and_the_reason() -> None:
    allowed = allowed_skips("# comment\n\ntests/a.py::test_k* # no kcat on this system\n")
    assert forbidden_skip("tests/a.py::test_kcat", "why", allowed) is None
    assert forbidden_skip("tests/a.py::test_kcat@jvm", "why", allowed) is None
    assert forbidden_skip("tests/a.py::test_jvm", "why", allowed) is not None
    with pytest.raises(ValueError, match="only with a reason"):
        allowed_skips("tests/a.py::test_kcat #\n")


def test_the_list_of_allowed_skips_is_valid() -> None:
    with open(ALLOWED) as file:
        assert all("::" in pattern for pattern in allowed_skips(file.read()))
