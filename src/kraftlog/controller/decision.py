"""What comes of a request: records for the log, and the answer once they are committed."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.messages.metadata_records import BeginTransactionRecord, EndTransactionRecord

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    from kraftlog.wire.schema import Message

    T = TypeVar("T")
    #: A decision in steps, where a request may be about thousands of things.
    Deciding = Generator[int, None, "Decision"]

#: So many names are counted in a step, and what that costs in microseconds.
COUNTED_AT_ONCE, COUNTING_COSTS = 100, 25
#: As in Kafka: so many records make one batch, and a user's request may not lead to more.
RECORDS_IN_BATCH = 10_000


class Decision(Value):
    """`records` empty: the answer leaves at once. Otherwise once all of them are committed."""

    records: list[Message]
    response: Any


class Refusal(Value):
    """Why something is not done."""

    code: int
    message: str | None = None


TOO_LARGE = Refusal(
    ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
)


def counted(named: Iterable[T]) -> Generator[int, None, dict[T, int]]:
    """How often each is named, in the order of the first times."""
    counts: dict[T, int] = {}
    for number, name in enumerate(named, 1):
        counts[name] = counts.get(name, 0) + 1
        if not number % COUNTED_AT_ONCE:
            yield COUNTING_COSTS
    return counts


def batches(records: Sequence[Message], name: str) -> Iterator[Sequence[Message]]:
    """What belongs together as atomic batches; more than one of them within a transaction (V2)."""
    if len(records) <= RECORDS_IN_BATCH:
        yield records
        return
    whole = [BeginTransactionRecord(name=name), *records, EndTransactionRecord()]
    for start in range(0, len(whole), RECORDS_IN_BATCH):
        yield whole[start : start + RECORDS_IN_BATCH]
