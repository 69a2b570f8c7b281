"""Shortcuts for requests that come again and again: docs/fast-path.md."""
