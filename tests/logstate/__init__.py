"""Tests of pure values about a log."""
