"""Tests of the source, the sink and the pipelines, on Apache Spark."""
