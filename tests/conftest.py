"""What all tests share."""

from __future__ import annotations

import os

from hypothesis import settings

pytest_plugins = (
    "pytester",
    "tests.interop.fixtures",
    "tests.interop.skips",
    "tests.client.fixtures",
)

# Here, and nowhere below: a test's own `@settings` take the rest from what is loaded when its
# module is imported. In CI the same examples come every time; elsewhere new ones do. A failure
# prints the line that brings its example back.
for name, derandomize in (("local", False), ("ci", True)):
    settings.register_profile(
        name, derandomize=derandomize, deadline=None, database=None, print_blob=True
    )
settings.load_profile("ci" if os.environ.get("CI") else "local")
