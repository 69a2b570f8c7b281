"""Decisions about the cluster: requests in, records and the answer out. The leader asks."""
