"""The quorum's messages and records in Kafka's wire form."""
