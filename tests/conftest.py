"""What all tests share."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

pytest_plugins = (
    "pytester",
    "tests.interop.fixtures",
    "tests.interop.skips",
    "tests.client.fixtures",
)

# Here, and nowhere below: a test's own `@settings` take the rest from what is loaded when its
# module is imported. In CI the same examples come every time; elsewhere new ones do. A failure
# prints the line that brings its example back. How long examples take to make is nobody's affair:
# a machine may do other things at the same time.
for name, derandomize in (("local", False), ("ci", True)):
    settings.register_profile(
        name,
        derandomize=derandomize,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        database=None,
        print_blob=True,
    )
settings.load_profile("ci" if os.environ.get("CI") else "local")
