"""Findings: what is wrong with the records of a table, at which offsets and in which files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from kraftlog.records.columns import Numbers

#: Kinds of findings about records of the table.
MISSING, DUPLICATE, DIFFERENT, NOT_IN_LOG = "missing", "duplicate", "different", "not in the log"
#: A kind of finding about a file: it is lost or broken, and Delta's log lacks its offsets.
UNREADABLE = "unreadable"
#: The most ranges of offsets that a finding names.
MAX_RANGES = 20


class Finding(NamedTuple):
    kind: str
    topic: str
    partition: int
    records: int
    #: The first `MAX_RANGES` ranges of consecutive offsets: the first and last offset of each.
    offsets: tuple[tuple[int, int], ...]
    files: tuple[str, ...] = ()
    note: str = ""

    def offsets_text(self) -> str:
        texts = [str(first) if first == last else f"{first}-{last}" for first, last in self.offsets]
        return ", ".join([*texts, *(["..."] if len(texts) == MAX_RANGES else [])])


def consecutive_ranges(offsets: Numbers) -> tuple[tuple[int, int], ...]:
    """The first `MAX_RANGES` ranges of consecutive offsets; `offsets` ascend and may repeat."""
    if not len(offsets):
        return ()
    cuts = np.flatnonzero(np.diff(offsets) > 1) + 1
    firsts = offsets[np.concatenate(([0], cuts))][:MAX_RANGES].tolist()
    lasts = offsets[np.concatenate((cuts - 1, [len(offsets) - 1]))][:MAX_RANGES].tolist()
    return tuple(zip(firsts, lasts, strict=True))


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Join findings that differ only in offsets and records; `findings` are in order of offsets."""
    by_key: dict[tuple[Any, ...], Finding] = {}
    for finding in findings:
        key = (finding.kind, finding.topic, finding.partition, finding.files, finding.note)
        earlier = by_key.get(key)
        if earlier is not None:
            offsets = _joined(earlier.offsets, finding.offsets)
            by_key[key] = earlier._replace(
                records=earlier.records + finding.records, offsets=offsets
            )
        else:
            by_key[key] = finding
    return list(by_key.values())


def _joined(
    first: tuple[tuple[int, int], ...], second: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int], ...]:
    if len(first) == MAX_RANGES or not first or not second:
        return first or second
    if first[-1][1] + 1 == second[0][0]:
        return (*first[:-1], (first[-1][0], second[0][1]), *second[1:])[:MAX_RANGES]
    return (*first, *second)[:MAX_RANGES]
