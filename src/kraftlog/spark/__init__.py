"""kraftlog on Apache Spark, through PySpark: a source and a sink, and pipelines built on them.

Nothing else in kraftlog imports Spark, Arrow or Delta. Spark finds the source and the sink by
itself, because `pyspark_kraftlog` is installed beside this package (docs/use/spark.md).
"""
