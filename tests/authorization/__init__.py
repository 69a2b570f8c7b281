"""Tests of the authorizer."""
