"""A sink in Python that discards all rows: what Spark's own work for such a sink takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType


class Nowhere(DataSource):
    @classmethod
    def name(cls) -> str:
        return "nowhere"

    def writer(self, schema: StructType, overwrite: bool) -> Writer:  # noqa: ARG002 - Spark's interface
        return Writer()


class Writer(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing to do."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing to do."""
