"""Where Spark finds `format("kraftlog")`: it imports every top-level module named `pyspark_*`."""

from kraftlog.spark.source import KraftlogDataSource as DefaultSource

__all__ = ["DefaultSource"]
