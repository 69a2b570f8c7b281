"""Compares the journal with the final state of the nodes.

Each check yields the violations of the rule in its docstring.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from kraftlog_simulator.checkers import linearizability
from kraftlog_simulator.checkers.linearizability import Operation
from kraftlog_simulator.checkers.models import Register
from tests.torture.load import NUMBERED

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from kraftlog.metadata.image import Image
    from tests.torture.journal import AcknowledgedRecord, Change, Journal, PartitionName

    #: The key and value of each record that is in a topic at the end, by partition and offset.
    TopicRecords = dict[tuple[int, int], tuple[bytes | None, bytes]]


def by_offset(records: Iterable[Any]) -> TopicRecords:
    return {(r.partition, r.offset): (r.key, r.value) for r in records}


def lost_records(
    acknowledged: Sequence[AcknowledgedRecord], found: Mapping[str, TopicRecords]
) -> Iterable[str]:
    """Acknowledged records are at their offsets.

    Exceptions are records before the log start, and those superseded in a compacted topic.
    """
    starts: dict[PartitionName, int] = {}
    newest: dict[tuple[PartitionName, bytes | None], int] = {}
    for topic, records in found.items():
        for (partition, offset), (key, _) in records.items():
            name = topic, partition
            starts[name] = min(offset, starts.get(name, offset))
            newest[name, key] = max(offset, newest.get((name, key), -1))
    for record in acknowledged:
        name = record.topic, record.partition
        at_offset = found.get(record.topic, {}).get((record.partition, record.offset))
        if at_offset == (record.key, record.value):
            continue
        is_replaced = (
            record.topic == "compacted" and newest.get((name, record.key), -1) > record.offset
        )
        is_deleted = record.topic in {"trimmed", "retained"} and record.offset < starts.get(name, 0)
        if at_offset is not None or not (is_replaced or is_deleted):
            place = _place(*name, record.offset)
            yield f"{place}: {record.value[:40]!r} was acknowledged, found {at_offset!r}"


def _place(topic: str, partition: int, offset: int) -> str:
    return f"{topic}-{partition} offset {offset}"


def unexpected_records(sent_values: set[bytes], found: Mapping[str, TopicRecords]) -> Iterable[str]:
    """Every record was sent; the records of idempotent producers are unique and in order."""
    for topic, records in found.items():
        seen: set[bytes] = set()
        last: dict[int, int] = defaultdict(int)
        for (partition, offset), (_, value) in sorted(records.items()):
            if value not in sent_values:
                yield f"{topic}-{partition} offset {offset}: {value[:40]!r} was never sent"
                continue
            if topic not in NUMBERED:
                continue
            if value in seen:
                yield f"{topic}-{partition} offset {offset}: {value[:40]!r} is a duplicate"
            seen.add(value)
            number = int(value.split()[1])
            if number < last[partition]:
                yield f"{topic}-{partition} offset {offset}: {number} follows {last[partition]}"
            last[partition] = number


def changed_records(
    consumed: Mapping[tuple[str, int, int], bytes], found: Mapping[str, TopicRecords]
) -> Iterable[str]:
    """Consumed records are still at their offsets."""
    for (topic, partition, offset), value in consumed.items():
        at_offset = found[topic].get((partition, offset))
        if at_offset is None or at_offset[1] != value:
            place = _place(topic, partition, offset)
            yield f"{place}: {value[:40]!r} was consumed, then found {at_offset!r}"


def wrong_deletions(journal: Journal, found: Mapping[str, TopicRecords]) -> Iterable[str]:
    """Deleted records do not reappear, and no others are deleted with them."""
    start = min([offset for _, offset in found["trimmed"]], default=journal.trim_requested)
    if not journal.trimmed_to <= start <= max(journal.trim_requested, 0):
        yield (
            f"trimmed begins at {start}, deleted up to {journal.trimmed_to}, "
            f"requested {journal.trim_requested}"
        )
    kept = found["retained"]
    if kept and min(kept)[1] and sum(len(value) for _, value in kept.values()) < 50_000:
        yield f"of retained only {len(kept)} records from {min(kept)[1]} on are left"


def lost_commits(journal: Journal, committed: Mapping[PartitionName, int]) -> Iterable[str]:
    """A committed offset is at least the highest acknowledged one, and was requested."""
    for name, acknowledged in journal.committed.items():
        final = committed.get(name, 0)
        if final < acknowledged or final not in journal.requested_commits[name]:
            yield f"{name} was committed up to {acknowledged}, found {final}"


def possible_partition_counts(changes: Sequence[Change]) -> set[int]:
    """The possible partition counts of a topic after these changes; 0: it does not exist."""
    counts = {0}
    for change in changes:
        if change.is_done:
            counts = {change.partitions}
        else:
            counts.add(change.partitions)
    return counts


def lost_changes(journal: Journal, image: Image) -> Iterable[str]:
    """Acknowledged topic changes are in force, and topics keep their ids."""
    changes = defaultdict(list)
    for change in journal.changes:
        changes[change.topic].append(change)
    for topic, requested in changes.items():
        final = image.topic_named(topic)
        count = 0 if final is None else final.partition_count
        if topic != "remade" and count not in possible_partition_counts(requested):
            yield f"{topic} has {count} partitions after {requested}"
        topic_id = journal.topic_ids.get(topic)
        if final is not None and topic_id is not None and repr(final.id) != topic_id:
            yield f"{topic} was {topic_id}, and is {final.id!r}"


def wrong_records_of_recreated_topic(
    journal: Journal, topic_id: str | None, found: TopicRecords
) -> Iterable[str]:
    """A recreated topic has its acknowledged records, and none of an earlier topic of its name."""
    own_records = journal.recreated.get(topic_id or "", {})
    for offset, value in own_records.items():
        at_offset = found.get((0, offset))
        if at_offset is None or at_offset[1] != value:
            yield f"remade offset {offset}: {value!r} was acknowledged, found {at_offset!r}"
    values_of_others = {
        v
        for other, records in journal.recreated.items()
        if other != topic_id
        for v in records.values()
    }
    for (_, offset), (_, value) in found.items():
        if value in values_of_others:
            yield f"remade offset {offset}: {value!r} is of an earlier topic of that name"


class Registers(Register):
    """Registers by name."""

    def key(self, call: Any) -> Hashable:
        name: Hashable = call[0]
        return name

    def apply(self, state: Hashable, call: Any) -> tuple[Hashable, Hashable]:
        return super().apply(state, call[1:])

    def changes_nothing(self, call: Any, result: Hashable) -> bool:
        return super().changes_nothing(call[1:], result)


def impossible_registers(
    operations: Sequence[Operation], final: Mapping[str, str | None], now: int
) -> Iterable[str]:
    """Writes, possibly stale reads and the final read fit into one order."""
    last = [
        Operation("judge", (name, "read"), now, now + 1, value) for name, value in final.items()
    ]
    verdict = linearizability.check([*operations, *last], Registers())
    if verdict.outcome != linearizability.LINEARIZABLE:
        yield f"registers are {verdict.outcome}: {verdict.stuck}"
