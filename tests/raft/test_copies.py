"""Copies of a core, and the keys that identify its state; the explorer relies on both."""

from __future__ import annotations

from kraftlog.raft.messages import Flushed
from tests.raft.core_network import CoreNetwork


def busy_quorum() -> CoreNetwork:
    """A leader with followers, an observer, and pending proposals and requests."""
    net = CoreNetwork(1, 2, 3, 4, voters=(1, 2, 3))
    net.pass_time(5000)
    net.leader().propose("one", 1, 10, None, net.now)
    net.leader().reassign("grow", (1, 2, 3, 4), net.now)
    net.settle()
    return net


def test_a_copy_is_equal_and_independent() -> None:
    net = busy_quorum()
    for host in net.hosts.values():
        core = host.core
        twin = core.copy()
        assert twin.key() == core.key()
        before = core.key()
        twin.handle(Flushed(twin.log.end), net.now)
        twin.poll(net.now.replace(monotonic_ms=net.now.monotonic_ms + 60_000))
        assert twin.key() != before
        assert core.key() == before


def test_keys_leave_out_times() -> None:
    """The same events at another time lead to the same state."""
    keys, leaders = [], []
    for wait in (0, 12_345):
        net = CoreNetwork(1, 2, 3)
        net.now = net.now.replace(monotonic_ms=wait)
        net.settle()
        for core in (net.core(1), net.core(2)):
            core.now = net.now
        net.core(1).fire("election")
        net.deliver_all()
        keys.append([host.core.key() for host in net.hosts.values()])
        leaders.append(net.leader().me.id)
    assert keys[0] == keys[1]
    assert leaders == [1, 1]
