"""Tests of the pure state of a log."""
