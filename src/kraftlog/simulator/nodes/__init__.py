"""Whole nodes in the simulated world: real nodes, runners and storage, on virtual files."""
