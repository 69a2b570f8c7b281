"""Tests of `kraftlog.runner`."""
