"""Reports skipped interop tests in one line per reason, and forbids them in CI.

With CI=true a skip of a test marked `interop` or `spark` is a failure, unless `allowed-skips.txt`
has a pattern that matches its node id, and a reason.
"""

from __future__ import annotations

import os
from collections import Counter
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

#: Marks of the tests that need other software. `make test` installs what tests of Spark need.
MARKS = frozenset({"interop", "spark"})
ALLOWED = os.path.join(os.path.dirname(__file__), "allowed-skips.txt")


def allowed_skips(text: str) -> list[str]:
    """Parse lines `pattern  # reason`; the reason is required."""
    patterns = []
    for line in text.splitlines():
        pattern, _, reason = line.partition("#")
        if pattern.strip():
            if not reason.strip():
                raise ValueError(f"a skip is allowed only with a reason after '#': {line!r}")
            patterns.append(pattern.strip())
    return patterns


def forbidden_skip(node_id: str, reason: str, allowed: list[str]) -> str | None:
    """Why this skip is a failure; None if it is allowed."""
    test = node_id.rpartition("@")[0] or node_id  # xdist appends @group
    if any(fnmatchcase(test, pattern) for pattern in allowed):
        return None
    return f"{test} must not be skipped in CI ({reason}); install it, or see allowed-skips.txt"


def skip_reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def is_skipped_interop(report: Any) -> bool:
    is_skip = getattr(report, "skipped", False) and not hasattr(report, "wasxfail")
    return bool(is_skip and not MARKS.isdisjoint(getattr(report, "keywords", ())))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if os.environ.get("CI") == "true" and is_skipped_interop(report):
        with open(ALLOWED) as file:
            failure = forbidden_skip(report.nodeid, skip_reason(report), allowed_skips(file.read()))
        if failure:
            report.outcome = "failed"
            report.longrepr = failure
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = [r for r in terminalreporter.stats.get("skipped", ()) if is_skipped_interop(r)]
    for reason, count in sorted(Counter(map(skip_reason, skipped)).items()):
        terminalreporter.write_line(f"{count} interop tests skipped: {reason}")
