"""Tests of logs on disk."""
