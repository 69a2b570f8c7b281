"""The fast path for repeated requests: docs/understand/fast-path.md."""
