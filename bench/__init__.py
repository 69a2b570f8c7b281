"""Benchmarks: every figure in the docs is printed by one of these."""
