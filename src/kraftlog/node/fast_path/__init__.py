"""Shortcuts for requests that come again and again: docs/hot-path.md."""
