"""Reading lines of standard input, and parsing one."""

from __future__ import annotations

import os

import pytest

from kraftlog.cli.common import UsageError, matching, parse_pairs
from kraftlog.cli.produce import READER_DEFAULTS, LineReader, lines


def test_lines_are_read_when_complete_or_last_and_a_pause_is_none() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a\r\nb")
    read_lines = lines(reading, 0)
    assert [next(read_lines), next(read_lines)] == [b"a", None]
    os.write(writing, b"c\nd")
    os.close(writing)
    assert list(read_lines) == [b"bc", b"d"]
    os.close(reading)


def test_a_line_is_parsed_into_key_value_and_headers() -> None:
    properties = {"parse.key": "true", "parse.headers": "true", "ignore.error": "true"}
    reader = LineReader(READER_DEFAULTS | properties)
    assert reader.read(b"one", 1) == (None, b"one", ())
    assert reader.read(b"h,i:2\tk\tv", 1) == (b"k", b"v", [("h", None), ("i", b"2")])
    strict = LineReader(READER_DEFAULTS | properties | {"ignore.error": "false"})
    with pytest.raises(ValueError, match='line 7: header "h" has no value: ":" not found'):
        strict.read(b"h\tk\tv", 7)
    with pytest.raises(UsageError, match=r"key\.separator is empty"):
        LineReader(READER_DEFAULTS | {"parse.key": "true", "key.separator": ""})


def test_invalid_pairs_and_expressions_are_refused() -> None:
    with pytest.raises(UsageError, match="a: expected KEY=VALUE"):
        parse_pairs(["a"])
    with pytest.raises(UsageError, match="expected a regular expression"):
        matching([], "[")
    assert matching(["ab", "b", "c"], "a.,b") == ["ab", "b"]
