"""kraftlog: Kafka without ZooKeeper and without a JVM."""

__version__ = "0.1.0"
