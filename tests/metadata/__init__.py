"""Tests of `kraftlog.node`."""
