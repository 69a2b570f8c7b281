"""The everyday work of a Kafka client, done by each client that is available."""
