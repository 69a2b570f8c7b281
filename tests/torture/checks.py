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
    from tests.torture.journal import Change, Journal, Name, Sent

    #: Records of a topic by partition and offset: key and value.
    Found = dict[tuple[int, int], tuple[bytes | None, bytes]]


def by_place(records: Iterable[Any]) -> Found:
    return {(each.partition, each.offset): (each.key, each.value) for each in records}


def lost_records(sent: Sequence[Sent], found: Mapping[str, Found]) -> Iterable[str]:
    """Acknowledged records are at their offsets.

    Exceptions are records before the log start, and those superseded in a compacted topic.
    """
    begins: dict[Name, int] = {}
    newest: dict[tuple[Name, bytes | None], int] = {}
    for topic, records in found.items():
        for (partition, offset), (key, _) in records.items():
            name = topic, partition
            begins[name] = min(offset, begins.get(name, offset))
            newest[name, key] = max(offset, newest.get((name, key), -1))
    for each in sent:
        name = each.topic, each.partition
        there = found.get(each.topic, {}).get((each.partition, each.offset))
        if there == (each.key, each.value):
            continue
        is_replaced = each.topic == "compacted" and newest.get((name, each.key), -1) > each.offset
        is_deleted = each.topic in {"trimmed", "retained"} and each.offset < begins.get(name, 0)
        if there is not None or not (is_replaced or is_deleted):
            yield f"{_place(*name, each.offset)}: {each.value[:40]!r} was taken, {there!r} is there"


def _place(topic: str, partition: int, offset: int) -> str:
    return f"{topic}-{partition} offset {offset}"


def strange_records(invoked: set[bytes], found: Mapping[str, Found]) -> Iterable[str]:
    """There are no unsent records; those of idempotent producers are unique and in order."""
    for topic, records in found.items():
        seen: set[bytes] = set()
        last: dict[int, int] = defaultdict(int)
        for (partition, offset), (_, value) in sorted(records.items()):
            if value not in invoked:
                yield f"{topic}-{partition} offset {offset}: nobody sent {value[:40]!r}"
                continue
            if topic not in NUMBERED:
                continue
            if value in seen:
                yield f"{topic}-{partition} offset {offset}: {value[:40]!r} once more"
            seen.add(value)
            number = int(value.split()[1])
            if number < last[partition]:
                yield f"{topic}-{partition} offset {offset}: {number} behind {last[partition]}"
            last[partition] = number


def changed_records(
    seen: Mapping[tuple[str, int, int], bytes], found: Mapping[str, Found]
) -> Iterable[str]:
    """Consumed records are still there."""
    for (topic, partition, offset), value in seen.items():
        there = found[topic].get((partition, offset))
        if there is None or there[1] != value:
            yield f"{_place(topic, partition, offset)}: {value[:40]!r} was seen, {there!r} is there"


def lost_deletions(journal: Journal, found: Mapping[str, Found]) -> Iterable[str]:
    """Deleted records do not reappear, and no others are deleted with them."""
    begin = min([offset for _, offset in found["trimmed"]], default=journal.trims_asked)
    if not journal.trimmed_to <= begin <= max(journal.trims_asked, 0):
        yield (
            f"trimmed begins at {begin}, deleted up to {journal.trimmed_to}, "
            f"asked for {journal.trims_asked}"
        )
    kept = found["retained"]
    if kept and min(kept)[1] and sum(len(value) for _, value in kept.values()) < 50_000:
        yield f"of retained only {len(kept)} records from {min(kept)[1]} on are left"


def lost_commits(journal: Journal, outcome: Mapping[Name, int]) -> Iterable[str]:
    """A committed offset is at least the last acknowledged one, and was requested."""
    for name, floor in journal.committed.items():
        there = outcome.get(name, 0)
        if there < floor or there not in journal.commits_asked[name]:
            yield f"{name} was committed up to {floor}, {there} is there"


def possible_partitions(changes: Sequence[Change]) -> set[int]:
    """The possible partition counts of a topic; 0: it does not exist."""
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
    for topic, its in changes.items():
        there = image.topic_named(topic)
        count = 0 if there is None else there.partition_count
        if topic != "remade" and count not in possible_partitions(its):
            yield f"{topic} has {count} partitions after {its}"
        outcome = journal.ids.get(topic)
        if there is not None and outcome is not None and repr(there.id) != outcome:
            yield f"{topic} was {outcome}, and is {there.id!r}"


def lost_lives(journal: Journal, topic_id: str | None, found: Found) -> Iterable[str]:
    """A recreated topic has only its own records."""
    mine = journal.lives.get(topic_id or "", {})
    for offset, value in mine.items():
        there = found.get((0, offset))
        if there is None or there[1] != value:
            yield f"remade offset {offset}: {value!r} was acknowledged, {there!r} is there"
    others = {v for life, its in journal.lives.items() if life != topic_id for v in its.values()}
    for (_, offset), (_, value) in found.items():
        if value in others:
            yield f"remade offset {offset}: {value!r} is of another topic of that name"


class Registers(Register):
    """Registers by name."""

    def key(self, call: Any) -> Hashable:
        name: Hashable = call[0]
        return name

    def apply(self, state: Hashable, call: Any) -> tuple[Hashable, Hashable]:
        return super().apply(state, call[1:])

    def leaves_alone(self, call: Any, result: Hashable) -> bool:
        return super().leaves_alone(call[1:], result)


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
