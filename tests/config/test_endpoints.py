"""Parsing addresses."""

from __future__ import annotations

import pytest

from kraftlog.config.endpoints import (
    Listener,
    QuorumVoter,
    parse_dynamic_voter,
    parse_server,
    parse_static_voter,
    parse_voter,
)

DIRECTORY = "JEXY6aqzQY-32P5TStzaFg"


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("a:9093", ("a", 9093)),
        ("10.0.0.1:0", ("10.0.0.1", 0)),
        ("[::1]:9093", ("::1", 9093)),
        ("::1:9093", None),
        ("a", None),
        (":1", None),
        ("a:65536", None),
        ("a:-1", None),
        ("a b:1", None),
    ],
)
def test_servers_are_parsed(text: str, server: tuple[str, int] | None) -> None:
    assert parse_server(text) == server


@pytest.mark.parametrize(
    "text", ["a:1", "x@a:1", "1@a", "1@0.0.0.0:1", "1@[::]:1", "1@[::0]:1", "1@:1"]
)
def test_invalid_voters_are_not_parsed(text: str) -> None:
    assert parse_voter(text) is None


@pytest.mark.parametrize(
    ("host", "is_wildcard"),
    [
        *[(host, True) for host in ("", "0.0.0.0", "::", "::0", "0:0::0", "::0.0.0.0")],
        *[(host, False) for host in ("::1", "10.0.0.0", "a")],
    ],
)
def test_empty_hosts_and_addresses_of_zeros_are_wildcards(host: str, *, is_wildcard: bool) -> None:
    assert Listener("C", host, 1).is_wildcard == is_wildcard


def test_q33_a_static_voter_may_be_an_id_alone() -> None:
    assert parse_static_voter("3") == QuorumVoter(3, "", 0)
    assert parse_static_voter("3@a:1") == QuorumVoter(3, "a", 1)
    assert [parse_static_voter(text) for text in ("", "x", "-1", "3@", "3@a", "²")] == [None] * 6
    assert parse_voter("3") is None


def test_voters_are_parsed() -> None:
    assert parse_voter("3@a:1") == QuorumVoter(3, "a", 1)
    dynamic = parse_dynamic_voter(f" 3@[::1]:1:{DIRECTORY}")
    assert dynamic is not None
    assert dynamic.replace(directory_id=None) == QuorumVoter(3, "::1", 1)
    for text in (f"3@a:1:{DIRECTORY}x", "3@a:1", DIRECTORY, f"a:1:{DIRECTORY}"):
        assert parse_dynamic_voter(text) is None
