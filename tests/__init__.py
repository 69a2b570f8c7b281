"""Tests of kraftlog."""
