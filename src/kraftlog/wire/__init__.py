"""Messages to bytes and back: Kafka's wire protocol."""
