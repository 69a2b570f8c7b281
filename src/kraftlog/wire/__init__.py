"""Kafka's wire protocol: encodes and decodes messages."""
