"""Names of hosts are looked up beside the loop."""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING

import pytest

from kraftlog.server.names import Names, numeric
from kraftlog.types import Now
from tests.patience import LIMIT_S

if TYPE_CHECKING:
    from kraftlog.server.names import Place

NOW = Now(5, 6)


@pytest.mark.parametrize(
    ("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)]
)
def test_an_address_needs_no_looking_up(host: str, family: int) -> None:
    assert numeric(host, 9093) == (family, (host, 9093))


def test_a_name_is_no_address() -> None:
    assert numeric("localhost", 9093) is None


@pytest.mark.parametrize(("host", "is_known"), [("localhost", True), ("no..host", False)])
def test_what_is_found_is_told_on_the_loop(host: str, is_known: bool) -> None:
    names = Names()
    told: list[tuple[list[Place], Now]] = []
    names.find(host, 9093, lambda *what: told.append(what))
    assert select.select([names.ready_fd], [], [], LIMIT_S)[0]
    assert not told
    names.deliver(NOW)
    names.deliver(NOW)
    ((places, now),) = told
    assert now == NOW
    assert bool(places) == is_known
    assert all(address[1] == 9093 for _, address in places)
    names.close()


def test_what_is_found_after_the_end_wakes_nobody() -> None:
    """Its descriptor may be another's by then."""
    names = Names()
    names.close()
    names._look_up("localhost", 9093, lambda *_: None)
