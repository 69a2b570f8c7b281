"""Three nodes with replication, beside three of Apache Kafka in the same run."""
