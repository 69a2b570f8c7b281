"""Tests of SASL's mechanisms."""
