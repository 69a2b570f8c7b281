"""Tests of `kraftlog.cli`."""
