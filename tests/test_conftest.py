"""Hypothesis uses our profile, also for a test with settings of its own."""

from __future__ import annotations

import os

import pytest

TESTS = """
from hypothesis import given, settings, strategies as st

def show(test):
    used = test._hypothesis_internal_use_settings
    print("used:", used.derandomize, used.deadline, used.print_blob)

@given(st.integers())
def test_plain(n):
    show(test_plain)

@settings(max_examples=5)
@given(st.integers())
def test_with_settings_of_its_own(n):
    show(test_with_settings_of_its_own)
"""


@pytest.mark.parametrize(("ci", "derandomized"), [("true", True), ("", False)])
def test_every_test_inherits_from_the_loaded_profile(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str, derandomized: bool
) -> None:
    monkeypatch.setenv("CI", ci)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    monkeypatch.setenv("PYTHONPATH", root)
    pytester.makeconftest("from tests.conftest import settings")
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-s", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2)
    shown = {line for line in result.outlines if "used:" in line}
    assert {line[line.index("used:") :] for line in shown} == {f"used: {derandomized} None True"}
