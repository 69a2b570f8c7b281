"""The fast path for repeated requests: docs/fast-path.md."""
