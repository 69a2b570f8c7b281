"""Hosts the raft core: its driver, its messages as Kafka's requests, discovery, snapshots."""
