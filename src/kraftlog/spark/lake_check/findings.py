"""Findings: what is wrong with the records of a table, at which offsets and in which files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from kraftlog.records.columns import Numbers

#: Kinds of findings about records of the table.
MISSING, DUPLICATE, DIFFERENT, NOT_IN_LOG = "missing", "duplicate", "different", "not in the log"
#: Rows that no reader can attribute to a record of the log.
WITHOUT_POSITION = "without partition or offset"
#: The table has more or fewer rows than the archive has recorded, though each one seems right.
MISCOUNTED = "miscounted"
#: A kind of finding about a file: it is lost or broken, and the table's log lacks its offsets.
UNREADABLE = "unreadable"
#: The table's log, or the file's own footer, says something about the file that is not so.
MISDESCRIBED = "misdescribed"
#: The table lacks a column of the log's records, or has it with another type.
COLUMNS = "wrong columns"
#: Delta's log itself is damaged.
DELTA_LOG = "damaged Delta log"
#: So is the metadata of an Iceberg table.
ICEBERG_METADATA = "damaged Iceberg metadata"
#: The most ranges of offsets, or of rows, that a finding names.
MAX_RANGES = 20

Spans = tuple[tuple[int, int], ...]


class Finding(NamedTuple):
    kind: str
    topic: str
    #: -1: the finding is about the table, not about a partition.
    partition: int
    records: int
    #: The first `MAX_RANGES` ranges of consecutive offsets: the first and last offset of each.
    offsets: Spans = ()
    files: tuple[str, ...] = ()
    note: str = ""
    #: The rows in the file, counted from 0, if it is a single one: ranges as in `offsets`.
    rows: Spans = ()

    def lines(self, directory: str) -> Iterator[str]:
        """The finding as a sentence, and a line for each file."""
        where = self.topic if self.partition < 0 else f"{self.topic}-{self.partition}"
        words = self.kind
        if self.records:
            words = f"{counted(self.records, 'record')} {self.kind}"
        if self.offsets:
            plural = "" if _is_one(self.offsets) else "s"
            words += f" at offset{plural} {spans_text(self.offsets)}"
        # For files that are lost, broken or misdescribed, the note follows each file.
        is_of_files = bool(self.files) and self.kind in {MISSING, UNREADABLE, MISDESCRIBED}
        note, file_note = ("", self.note) if is_of_files else (self.note, "")
        yield f"{where}: {words} ({note})" if note else f"{where}: {words}"
        if self.rows:
            file_note = f"row{'' if _is_one(self.rows) else 's'} {spans_text(self.rows)}"
        for path in self.files:
            yield f"    {os.path.relpath(path, directory)} {file_note}".rstrip()


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def spans_text(spans: Spans) -> str:
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in spans]
    return ", ".join([*texts, *(["..."] if len(texts) == MAX_RANGES else [])])


def _is_one(spans: Spans) -> bool:
    return len(spans) == 1 and spans[0][0] == spans[0][1]


def consecutive_ranges(numbers: Numbers) -> Spans:
    """The first `MAX_RANGES` ranges of consecutive numbers, which ascend and may repeat."""
    if not len(numbers):
        return ()
    cuts = np.flatnonzero(np.diff(numbers) > 1) + 1
    firsts = numbers[np.concatenate(([0], cuts))][:MAX_RANGES].tolist()
    lasts = numbers[np.concatenate((cuts - 1, [len(numbers) - 1]))][:MAX_RANGES].tolist()
    return tuple(zip(firsts, lasts, strict=True))


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Join findings that differ only in offsets and records; `findings` are in order of offsets."""
    by_key: dict[tuple[Any, ...], Finding] = {}
    for finding in findings:
        key = (finding.kind, finding.topic, finding.partition, finding.files, finding.note)
        earlier = by_key.get(key)
        if earlier is not None:
            by_key[key] = earlier._replace(
                records=earlier.records + finding.records,
                offsets=_joined(earlier.offsets, finding.offsets),
                rows=_joined(earlier.rows, finding.rows),
            )
        else:
            by_key[key] = finding
    return list(by_key.values())


def _joined(first: Spans, second: Spans) -> Spans:
    if len(first) == MAX_RANGES or not first or not second:
        return first or second
    if first[-1][1] + 1 == second[0][0]:
        return (*first[:-1], (first[-1][0], second[0][1]), *second[1:])[:MAX_RANGES]
    return (*first, *second)[:MAX_RANGES]
