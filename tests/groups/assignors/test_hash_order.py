"""Hashes and orders as those of Java; test_against_kafka.py compares whole assignments."""

from __future__ import annotations

import pytest

from kraftlog.groups.assignors.hash_order import (
    copied_set_buckets,
    in_hash_order,
    partitions_in_hash_order,
    strings_in_hash_order,
    table_size,
    uuid_hash,
)
from kraftlog.groups.java_hash import string_hash
from kraftlog.steps import result_of

#: What `"…".hashCode()` prints in jshell, as an unsigned number.
HASHES = {
    "": 0,
    "a": 97,
    "AaAa": 2031744,
    "BBBB": 2031744,
    "hello": 99162322,
    "polygenelubricants": 2**31,
    "\U0001f600": 1772899,
    "ü": 252,
}


@pytest.mark.parametrize("text", HASHES, ids=range(len(HASHES)))
def test_strings_have_their_hash_codes(text: str) -> None:
    assert string_hash(text) == HASHES[text]


def test_long_strings_have_the_hash_of_the_same_formula() -> None:
    for size in (63, 64, 65, 1000):
        expected = 0
        for unit in b"x" * size:
            expected = (expected * 31 + unit) % 2**32
        assert string_hash("x" * size) == expected


def test_a_uuid_hashes_to_its_four_words() -> None:
    words = (0x01020304, 0x10203040, 0x0A0B0C0D, 0xA0B0C0D0)
    uuid = b"".join([word.to_bytes(4, "big") for word in words])
    assert uuid_hash(uuid) == words[0] ^ words[1] ^ words[2] ^ words[3]


def test_a_set_copied_from_twelve_has_room_for_thirteen() -> None:
    assert [copied_set_buckets(size) for size in (0, 11, 12, 23, 24)] == [16, 16, 32, 32, 64]


@pytest.mark.parametrize(
    ("count", "buckets"), [(0, 16), (12, 16), (13, 32), (24, 32), (25, 64), (48, 64), (49, 128)]
)
def test_a_table_doubles_above_three_quarters(count: int, buckets: int) -> None:
    assert table_size(range(count), 16) == buckets


def test_a_table_doubles_when_a_bucket_has_nine_keys() -> None:
    assert table_size(range(0, 8 * 64, 64), 16) == 16
    assert table_size(range(0, 9 * 64, 64), 16) == 32
    assert table_size(range(0, 10 * 64, 64), 16) == 64
    assert table_size(range(0, 12 * 64, 64), 16) == 64


def test_keys_of_one_bucket_keep_the_order_of_insertion() -> None:
    assert in_hash_order([33, 2, 17, 1], [33, 2, 17, 1]) == [33, 17, 1, 2]
    assert in_hash_order([1 << 16, 1, 0], [1 << 16, 1, 0]) == [0, 1 << 16, 1]


def test_partitions_below_the_size_of_the_table_are_ascending() -> None:
    assert partitions_in_hash_order(frozenset({15, 3, 9})) == [3, 9, 15]
    assert partitions_in_hash_order(frozenset({16, 3, 9})) == [16, 3, 9]
    assert partitions_in_hash_order(frozenset()) == []


def test_strings_of_one_bucket_are_ascending() -> None:
    assert result_of(strings_in_hash_order(["BBBB", "hello", "AaAa"])) == ["hello", "AaAa", "BBBB"]
