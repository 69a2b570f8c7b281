"""What is wrong with a table: the offsets of a partition, and the files that have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from kraftlog.records.columns import Numbers

#: Kinds of findings, by what they say about records.
MISSING, DUPLICATE, DIFFERENT, NOT_IN_LOG = "missing", "duplicate", "different", "not in the log"
#: The file is lost or broken, and the table alone does not say which offsets it has.
UNREADABLE = "unreadable"
#: The most ranges of offsets that a finding names.
NAMED = 20


class Finding(NamedTuple):
    kind: str
    topic: str
    partition: int
    records: int
    #: Of the offsets: the first and last of each stretch without a hole, at most `NAMED`.
    offsets: tuple[tuple[int, int], ...]
    files: tuple[str, ...] = ()
    note: str = ""

    def offsets_text(self) -> str:
        texts = [str(low) if low == high else f"{low}-{high}" for low, high in self.offsets]
        return ", ".join([*texts, *(["..."] if len(texts) == NAMED else [])])


def stretches(offsets: Numbers) -> tuple[tuple[int, int], ...]:
    """Ascending offsets as ranges; equal ones count once."""
    if not len(offsets):
        return ()
    cuts = np.flatnonzero(np.diff(offsets) > 1) + 1
    lows = offsets[np.concatenate(([0], cuts))][:NAMED].tolist()
    highs = offsets[np.concatenate((cuts - 1, [len(offsets) - 1]))][:NAMED].tolist()
    return tuple(zip(lows, highs, strict=True))


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Join findings of the same kind, files and note that follow one another."""
    found: dict[tuple[Any, ...], Finding] = {}
    for each in findings:
        key = (each.kind, each.topic, each.partition, each.files, each.note)
        before = found.get(key)
        if before is not None:
            offsets = _joined(before.offsets, each.offsets)
            found[key] = before._replace(records=before.records + each.records, offsets=offsets)
        else:
            found[key] = each
    return list(found.values())


def _joined(
    first: tuple[tuple[int, int], ...], second: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int], ...]:
    if len(first) == NAMED or not first or not second:
        return first or second
    if first[-1][1] + 1 == second[0][0]:
        return (*first[:-1], (first[-1][0], second[0][1]), *second[1:])[:NAMED]
    return (*first, *second)[:NAMED]
