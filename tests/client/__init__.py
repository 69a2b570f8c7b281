"""Tests of kraftlog.client."""
