"""kraftlog on Apache Spark beside Spark's own Kafka connector, in one session on one node."""
