"""Tests of messages and bytes."""
