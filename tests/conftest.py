"""Fixtures and settings of all tests."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

pytest_plugins = (
    "pytester",
    "tests.interop.fixtures",
    "tests.interop.skips",
    "tests.client.fixtures",
)

# Loaded here, as a test's own `@settings` inherit from the profile that is loaded when its module
# is imported. In CI the examples are the same every time; elsewhere they are new. A failure prints
# the line that reproduces its example. There is no deadline, as the machine may be busy.
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

# A job in the background of a script ignores SIGINT, and so would all processes of the tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
