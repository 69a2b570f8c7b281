"""Host names are resolved outside the event loop, and the results are delivered on it."""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING

import pytest

from kraftlog.server.name_resolution import NameResolver, numeric_address
from kraftlog.types import Now
from tests.server.without_threads import threads_cannot_start
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from kraftlog.server.name_resolution import SocketAddress

NOW = Now(5, 6)


@pytest.mark.parametrize(
    ("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)]
)
def test_an_ip_address_needs_no_lookup(host: str, family: int) -> None:
    assert numeric_address(host, 9093) == (family, (host, 9093))


def test_a_host_name_needs_a_lookup() -> None:
    assert numeric_address("localhost", 9093) is None


@pytest.mark.parametrize(("host", "has_address"), [("localhost", True), ("no..host", False)])
def test_results_are_delivered_on_the_loop(host: str, has_address: bool) -> None:
    resolver = NameResolver()
    outcome: list[tuple[list[SocketAddress], Now]] = []
    resolver.resolve(host, 9093, lambda *result: outcome.append(result))
    assert select.select([resolver.ready_fd], [], [], LIMIT_S)[0]
    assert not outcome
    resolver.deliver(NOW)
    resolver.deliver(NOW)
    ((addresses, now),) = outcome
    assert now == NOW
    assert bool(addresses) == has_address
    assert all(address[1] == 9093 for _, address in addresses)
    resolver.close()


def test_results_after_close_are_dropped() -> None:
    """By then, the eventfd's descriptor may belong to another file."""
    resolver = NameResolver()
    resolver.close()
    resolver._look_up("localhost", 9093, lambda *_: None)


def test_a_lookup_fails_if_no_thread_can_be_started(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The failure is logged once; the caller retries."""
    resolver = NameResolver()
    outcome: list[list[SocketAddress]] = []
    with threads_cannot_start():
        for _ in range(2):
            resolver.resolve("localhost", 9093, lambda addresses, _: outcome.append(addresses))
        assert not outcome, "a failure must be delivered on the loop, not within the call"
        resolver.deliver(NOW)
    assert outcome == [[], []]
    assert capfd.readouterr().err == "cannot resolve localhost: can't start new thread\n"
    resolver.resolve("localhost", 9093, lambda addresses, _: outcome.append(addresses))
    assert select.select([resolver.ready_fd], [], [], LIMIT_S)[0]
    resolver.deliver(NOW)
    assert outcome[2]
    resolver.close()
