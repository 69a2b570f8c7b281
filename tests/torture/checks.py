"""Compares a journal with the final state; every check yields the errors."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from kraftlog.simulator.checkers import linearizability
from kraftlog.simulator.checkers.linearizability import Operation
from kraftlog.simulator.checkers.models import Register
from tests.torture.load import NUMBERED

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from kraftlog.metadata.image import Image
    from tests.torture.journal import Change, Journal, PartitionName, Sent

    #: The key and value of each record of a topic, by partition and offset.
    Found = dict[tuple[int, int], tuple[bytes | None, bytes]]


def by_offset(records: Iterable[Any]) -> Found:
    return {(each.partition, each.offset): (each.key, each.value) for each in records}


def lost_records(sent: Sequence[Sent], found: Mapping[str, Found]) -> Iterable[str]:
    """Acknowledged records are at their offsets.

    Exceptions are records before the log start, and those superseded in a compacted topic.
    """
    begins: dict[PartitionName, int] = {}
    newest: dict[tuple[PartitionName, bytes | None], int] = {}
    for topic, records in found.items():
        for (partition, offset), (key, _) in records.items():
            name = topic, partition
            begins[name] = min(offset, begins.get(name, offset))
            newest[name, key] = max(offset, newest.get((name, key), -1))
    for each in sent:
        name = each.topic, each.partition
        at_offset = found.get(each.topic, {}).get((each.partition, each.offset))
        if at_offset == (each.key, each.value):
            continue
        is_replaced = each.topic == "compacted" and newest.get((name, each.key), -1) > each.offset
        is_deleted = each.topic in {"trimmed", "retained"} and each.offset < begins.get(name, 0)
        if at_offset is not None or not (is_replaced or is_deleted):
            place = _place(*name, each.offset)
            yield f"{place}: {each.value[:40]!r} was acknowledged, found {at_offset!r}"


def _place(topic: str, partition: int, offset: int) -> str:
    return f"{topic}-{partition} offset {offset}"


def unexpected_records(invoked: set[bytes], found: Mapping[str, Found]) -> Iterable[str]:
    """There are no unsent records; those of idempotent producers are unique and in order."""
    for topic, records in found.items():
        seen: set[bytes] = set()
        last: dict[int, int] = defaultdict(int)
        for (partition, offset), (_, value) in sorted(records.items()):
            if value not in invoked:
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
    seen: Mapping[tuple[str, int, int], bytes], found: Mapping[str, Found]
) -> Iterable[str]:
    """Consumed records are still at their offsets."""
    for (topic, partition, offset), value in seen.items():
        at_offset = found[topic].get((partition, offset))
        if at_offset is None or at_offset[1] != value:
            place = _place(topic, partition, offset)
            yield f"{place}: {value[:40]!r} was consumed, then found {at_offset!r}"


def wrong_deletions(journal: Journal, found: Mapping[str, Found]) -> Iterable[str]:
    """Deleted records do not reappear, and no others are deleted with them."""
    begin = min([offset for _, offset in found["trimmed"]], default=journal.trim_requested)
    if not journal.trimmed_to <= begin <= max(journal.trim_requested, 0):
        yield (
            f"trimmed begins at {begin}, deleted up to {journal.trimmed_to}, "
            f"asked for {journal.trim_requested}"
        )
    kept = found["retained"]
    if kept and min(kept)[1] and sum(len(value) for _, value in kept.values()) < 50_000:
        yield f"of retained only {len(kept)} records from {min(kept)[1]} on are left"


def lost_commits(journal: Journal, outcome: Mapping[PartitionName, int]) -> Iterable[str]:
    """A committed offset is at least the last acknowledged one, and was requested."""
    for name, floor in journal.committed.items():
        final = outcome.get(name, 0)
        if final < floor or final not in journal.requested_commits[name]:
            yield f"{name} was committed up to {floor}, found {final}"


def possible_partition_counts(changes: Sequence[Change]) -> set[int]:
    """The possible partition counts of a topic after these changes; 0: it does not exist."""
    may_be = {0}
    for change in changes:
        if change.is_done:
            may_be = {change.partitions}
        else:
            may_be.add(change.partitions)
    return may_be


def lost_changes(journal: Journal, image: Image) -> Iterable[str]:
    """Topics are as acknowledged, with their topic ids."""
    changes = defaultdict(list)
    for change in journal.changes:
        changes[change.topic].append(change)
    for topic, requested in changes.items():
        final = image.topic_named(topic)
        count = 0 if final is None else final.partition_count
        if topic != "remade" and count not in possible_partition_counts(requested):
            yield f"{topic} has {count} partitions after {requested}"
        outcome = journal.ids.get(topic)
        if final is not None and outcome is not None and repr(final.id) != outcome:
            yield f"{topic} was {outcome}, and is {final.id!r}"


def records_of_other_topics(journal: Journal, topic_id: str | None, found: Found) -> Iterable[str]:
    """A recreated topic has only its own records."""
    mine = journal.lives.get(topic_id or "", {})
    for offset, value in mine.items():
        at_offset = found.get((0, offset))
        if at_offset is None or at_offset[1] != value:
            yield f"remade offset {offset}: {value!r} was acknowledged, found {at_offset!r}"
    others = {
        v for other, records in journal.lives.items() if other != topic_id for v in records.values()
    }
    for (_, offset), (_, value) in found.items():
        if value in others:
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
