"""Metrics and health of a node; imported at the first scrape."""
