"""Logs on disk in Kafka's format, on a Files port."""
