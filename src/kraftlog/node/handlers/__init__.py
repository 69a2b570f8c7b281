"""Handlers of requests: one file for each API or group of related APIs, and what they share."""
