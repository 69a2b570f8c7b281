"""Partitions: leadership, appends, the high watermark and delayed produce requests."""
