"""Produce: `handler` checks batches and appends them; `template` does it for repeated requests."""
