"""Which version this is: below everything, as also the lowest layers say it."""

from __future__ import annotations

VERSION = "0.1.0"
