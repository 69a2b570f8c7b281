"""Reads a range of offsets from the broker and writes it as files: the work of one task."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from kraftlog.client import offsets
from kraftlog.client.range_reader import RecreatedTopicError
from kraftlog.records.arrow import byte_strings, row_numbers
from kraftlog.spark.lake import layout
from kraftlog.spark.lake.archives import open_archive
from kraftlog.spark.lake.decode import DriftError, decoder_of
from kraftlog.spark.lake.files import WrittenFile
from kraftlog.spark.lake.table import LakeError
from kraftlog.spark.range_rows import range_rows
from kraftlog.spark.ranges import OffsetRange

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from kraftlog.client.cluster import Cluster


@dataclass
class Outcome:
    """The result of a range. A refusal is a field, as Spark would retry a task that raises."""

    partition: int
    start: int
    end: int
    rows: int = 0
    #: The number of dead letters.
    bad: int = 0
    files: list[WrittenFile] = field(default_factory=list)
    dead_letters: list[WrittenFile] = field(default_factory=list)
    #: Ranges of offsets that were deleted from the log before they were archived.
    lost: list[tuple[int, int]] = field(default_factory=list)
    #: By name of a field without a column: the number of records that have the field.
    ignored: dict[str, int] = field(default_factory=dict)
    #: Why the batch must not be committed; empty if it may be.
    refused: str = ""

    def fields(self) -> dict[str, Any]:
        files = {
            name: [{**each.fields(), "schema": each.schema} for each in getattr(self, name)]
            for name in ("files", "dead_letters")
        }
        return {**self.__dict__, **files}

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Outcome:
        files = {
            name: [WrittenFile.read(each) for each in fields[name]]
            for name in ("files", "dead_letters")
        }
        lost = [(start, end) for start, end in fields["lost"]]
        return cls(**{**fields, **files, "lost": lost})


class RangeArchiver:
    """Archives one range; `decoding` has the attributes of `lake.decode.Decoding` by name."""

    def __init__(
        self,
        cluster: Cluster,
        offset_range: OffsetRange,
        directory: str,
        decoding: Mapping[str, Any],
        *,
        isolation_level: int,
        may_lose: bool,
    ) -> None:
        table = open_archive(directory, offset_range.topic)
        assert table is not None, "the pipeline creates the table first"
        self._cluster = cluster
        self._range = offset_range
        #: The table's topic id: records of another topic with the same name are never read.
        self._topic_id = table.state.topic_uuid
        self._isolation_level = isolation_level
        self._may_lose = may_lose
        self._decoder = decoder_of(decoding, table.schema, is_new=table.is_new)
        name = f"{offset_range.partition:05}-{offset_range.start:020}"
        self._files = table.writer(name)
        self._dead_path = layout.dead_letters_path(directory)
        self._dead_letters = table.dead_letter_writer(f"{offset_range.topic}-{name}")
        self._outcome = Outcome(offset_range.partition, offset_range.start, offset_range.end)

    def run(self) -> Outcome:
        outcome = self._outcome
        try:
            self._read()
        except (DriftError, LakeError, RecreatedTopicError) as error:
            outcome.refused = str(error)
        outcome.files = self._files.close()
        outcome.dead_letters = self._dead_letters.close()
        return outcome

    def _read(self) -> None:
        batches = range_rows(
            self._cluster,
            self._range,
            self._topic_id,
            self._after_loss,
            isolation_level=self._isolation_level,
            with_headers=True,
            for_table=True,
        )
        for rows in batches:
            self._write(rows.drop_columns(["topic"]))

    def _after_loss(self, offset_range: OffsetRange, position: int) -> OffsetRange:
        """Record a deleted range and return the range after it.

        Raises LakeError if loss is not allowed, or if the log was truncated instead.
        """
        log_start = offsets.find(self._cluster, {offset_range.name: offsets.EARLIEST})[
            offset_range.name
        ].offset
        partition = f"{offset_range.topic}-{offset_range.partition}"
        if log_start <= position:
            raise LakeError(
                f"{partition}: the log has earlier offsets, but not {position}: it was truncated, "
                "or the topic was deleted and created again"
            )
        end = min(log_start, offset_range.end)
        if not self._may_lose:
            raise LakeError(
                f"{partition}: offsets {position} to {end - 1} were deleted from the log before "
                f"they were archived ({end - position} offsets): --allow-data-loss continues after "
                "them"
            )
        self._outcome.lost.append((position, end))
        return OffsetRange(*offset_range.name, end, offset_range.end)

    def _write(self, rows: pa.RecordBatch) -> None:
        if not len(rows):
            return
        if self._decoder is not None:
            decoded = self._decoder.decode(rows)
            for name, count in decoded.ignored.items():
                self._outcome.ignored[name] = self._outcome.ignored.get(name, 0) + count
            if decoded.bad:
                self._write_dead_letters(decoded.raw, decoded.bad)
            rows = decoded.rows
        if len(rows):
            self._files.write(rows)
            self._outcome.rows += len(rows)

    def _write_dead_letters(self, batch: pa.RecordBatch, bad: Mapping[int, str]) -> None:
        """Write the records that could not be decoded; `bad` has the reasons by row."""
        rows = sorted(bad)
        raw = batch.take(row_numbers(rows))
        columns = {name: raw.column(name) for name in raw.schema.names}
        columns["topic"] = byte_strings([self._range.topic.encode()] * len(rows), pa.string())
        reasons = [bad[row].encode(errors="replace") for row in rows]
        columns["reason"] = byte_strings(reasons, pa.string())
        os.makedirs(self._dead_path, exist_ok=True)
        self._dead_letters.write(
            pa.RecordBatch.from_arrays(
                [columns[name] for name in layout.DEAD_LETTER.names], schema=layout.DEAD_LETTER
            )
        )
        self._outcome.bad += len(raw)
