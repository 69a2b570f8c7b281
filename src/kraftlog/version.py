"""The version of kraftlog, in a module of its own that every layer may import."""

from __future__ import annotations

VERSION = "0.1.0"
