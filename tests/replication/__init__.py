"""Tests of `kraftlog.replication`."""
