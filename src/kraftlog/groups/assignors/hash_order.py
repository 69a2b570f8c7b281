"""The order in which Java iterates over a HashMap, on which Kafka's assignments depend.

Which member gets the first partition, which topic is dealt first, and which partitions a member
with too many gives back: Kafka takes them as its hash tables return them. A table's order follows
from the hashes of its keys, and in a bucket from the order of insertion. That order is chance in
Kafka (when members joined, what was assigned before); here it is ascending, so that each
coordinator computes the same.

A table with more than eight keys in a bucket is doubled if it has less than 64 buckets. From then
on such a bucket becomes a tree, whose order is not reproduced.
"""

from __future__ import annotations

from kraftlog.groups.java_hash import string_hash
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence
    from typing import TypeVar

    from kraftlog.types import Uuid

    T = TypeVar("T")

_MASK = 0xFFFFFFFF
#: Strings that are hashed in one step; each takes about two microseconds.
STRINGS_PER_STEP = 250

#: The number of buckets of a `new HashMap()`.
DEFAULT_BUCKETS = 16
#: Tables below this size grow when a bucket has more keys than this number.
_TREE_BUCKETS = 64
_FULL_BUCKET = 8


def uuid_hash(uuid: Uuid) -> int:
    """Uuid.hashCode, as an unsigned number."""
    both = int.from_bytes(uuid[:8], "big") ^ int.from_bytes(uuid[8:], "big")
    return (both >> 32) ^ (both & _MASK)


def copied_set_buckets(size: int) -> int:
    """The number of buckets of `new HashSet<>(collection)`."""
    return _power_of_two(max(size * 4 // 3 + 1, DEFAULT_BUCKETS))


def in_hash_order(
    items: Sequence[T], hashes: Iterable[int], buckets: int = DEFAULT_BUCKETS
) -> list[T]:
    """The items as a HashMap returns them that had this number of buckets when it was empty."""
    spread = [number ^ number >> 16 for number in hashes]
    mask = table_size(spread, buckets) - 1
    slots = [number & mask for number in spread]
    return [items[index] for index in sorted(range(len(items)), key=slots.__getitem__)]


def strings_in_hash_order(texts: Iterable[str]) -> Generator[int, None, list[str]]:
    """The strings as a HashMap returns them; in steps, as they may be many."""
    ascending = sorted(texts)
    yield len(ascending) // 4
    hashes: list[int] = []
    for start in range(0, len(ascending), STRINGS_PER_STEP):
        hashes += map(string_hash, ascending[start : start + STRINGS_PER_STEP])
        yield 2 * STRINGS_PER_STEP
    ordered = in_hash_order(ascending, hashes)
    yield len(ascending) // 2
    return ordered


def topics_in_hash_order(topic_ids: Iterable[Uuid], buckets: int = DEFAULT_BUCKETS) -> list[Uuid]:
    """The topics as a HashMap returns them."""
    ascending = sorted(topic_ids)
    return in_hash_order(ascending, map(uuid_hash, ascending), buckets)


def partitions_in_hash_order(partitions: frozenset[int]) -> list[int]:
    """The partitions as a HashSet returns them that was read from a record."""
    ascending = sorted(partitions)
    buckets = copied_set_buckets(len(ascending))
    if not ascending or ascending[-1] < buckets:
        return ascending
    return in_hash_order(ascending, ascending, buckets)


def table_size(spread: Sequence[int], buckets: int) -> int:
    """The number of buckets after these hashes were added one by one."""
    count = len(spread)
    grown = max(buckets, _power_of_two(-(-count * 4 // 3)))
    if grown >= _TREE_BUCKETS or count <= _FULL_BUCKET:
        return grown
    for index in range(count):
        slot = spread[index] & buckets - 1
        in_slot = sum([number & buckets - 1 == slot for number in spread[: index + 1]])
        if in_slot > _FULL_BUCKET and buckets < _TREE_BUCKETS:
            buckets *= 2
        if (index + 1) * 4 > buckets * 3:
            buckets *= 2
    return buckets


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()
