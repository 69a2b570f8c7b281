"""kraftlog and Apache Kafka on the same cores in the same run; `python -m bench beside --help`."""
