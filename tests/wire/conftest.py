"""Hypothesis takes the same examples every time where a red run must be repeatable."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True, database=None, deadline=None)
settings.register_profile("local", database=None, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")
