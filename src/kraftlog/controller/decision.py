"""`Decision`: records to append, and the response once they are committed."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.messages.metadata_records import BeginTransactionRecord, EndTransactionRecord

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    from kraftlog.wire.schema import Message

    T = TypeVar("T")
    #: A decision in steps, for requests about thousands of items. It yields the cost of each step,
    #: an estimate of its time in microseconds.
    DecisionInSteps = Generator[int, None, "Decision"]

#: Names that `count_names` counts per step, and the cost of such a step in microseconds.
COUNTED_AT_ONCE, COUNTING_COST = 100, 25
#: The most records that one batch, or a request of a user, may have, as in Kafka.
RECORDS_IN_BATCH = 10_000


class Decision(Value):
    """A decision; the response is sent once its records, and all before them, are committed."""

    records: list[Message]
    response: Any
    #: The level to which the quorum raises kraft.version, by records of its own; 0: it does not.
    kraft_version: int = 0


class Refusal(Value):
    """An error code with a message."""

    code: int
    message: str | None = None


TOO_LARGE = Refusal(
    ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
)

THROTTLED = Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")


def count_names(named: Iterable[T]) -> Generator[int, None, dict[T, int]]:
    """Count names, in order of their first occurrence."""
    counts: dict[T, int] = {}
    for number, name in enumerate(named, 1):
        counts[name] = counts.get(name, 0) + 1
        if not number % COUNTED_AT_ONCE:
            yield COUNTING_COST
    return counts


def batches(records: Sequence[Message], name: str) -> Iterator[Sequence[Message]]:
    """Split records into atomic batches; several form a metadata transaction (V2)."""
    if len(records) <= RECORDS_IN_BATCH:
        yield records
        return
    whole = [BeginTransactionRecord(name=name), *records, EndTransactionRecord()]
    for start in range(0, len(whole), RECORDS_IN_BATCH):
        yield whole[start : start + RECORDS_IN_BATCH]
