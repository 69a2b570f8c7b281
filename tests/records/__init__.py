"""Tests of record batches."""
