"""Replays: a table's records are written to a topic, each once, whatever is repeated or killed."""
