"""Checks of a run besides its invariants, and the coverage of runs."""
