"""The fetcher of a leader's partitions waits once the leader refuses connections."""

from __future__ import annotations

from kraftlog.effects import ConnectionRefused
from kraftlog.replication.partition import Partition
from kraftlog.types import Now
from tests.virtual_host import VirtualHost

LEADER = 7


def test_v13_fetches_from_a_leader_that_is_down_wait_for_the_backoff() -> None:
    host = VirtualHost()
    fetchers = host.node.replica_manager.fetchers
    fetchers.follow(Partition("demo", b"t" * 16, 0, ("demo", 0)), LEADER)
    for channel, peer in (("quorum", LEADER), ("replication-0", LEADER + 1)):
        host.node.handle(ConnectionRefused(channel, peer, 0), host.now)
        assert fetchers.has_work(host.now)
    host.node.handle(ConnectionRefused("replication-0", LEADER, 0), host.now)
    assert not fetchers.has_work(host.now)
    backoff_ms = host.node.config.settings["replica.fetch.backoff.ms"]
    later_ms = host.now.monotonic_ms + backoff_ms
    assert not fetchers.has_work(Now(later_ms - 1, 0))
    assert fetchers.has_work(Now(later_ms, 0))
