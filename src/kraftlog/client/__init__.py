"""A small blocking client, for kraftlog and for Apache Kafka."""
