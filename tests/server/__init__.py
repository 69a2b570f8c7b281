"""Tests of `kraftlog.server`."""
