"""Tests of `kraftlog.metadata`."""
