"""D1, D3, D4, D7: describing the leader and the lag of replicas."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey
from kraftlog.raft.describe import NEVER_FETCHED as NEVER
from kraftlog.raft.describe import QuorumDescription, describe
from kraftlog.raft.messages import Fetch, PeerDown, Request
from kraftlog.raft.progress import MAX_TRACKED
from kraftlog.types import Now
from tests.raft.core_network import CoreNetwork


def description_by_leader(net: CoreNetwork) -> QuorumDescription:
    description = describe(net.leader(), net.now)
    assert description is not None
    return description


def test_d2_only_the_leader_describes() -> None:
    """C114: other replicas have no description."""
    net = CoreNetwork(1, 2, 3)
    net.pass_time(5000)
    for host in net.hosts.values():
        is_leader = host.core is net.leader()
        assert (describe(host.core, net.now) is not None) == is_leader


def test_d3_the_leader_fetched_now_and_a_silent_replica_never() -> None:
    """C115."""
    net = CoreNetwork(1, 2, 3, voters=(1, 2, 3))
    net.isolate(3)
    net.pass_time(5000)
    leader = net.leader()
    rows = {row.key.id: row for row in description_by_leader(net).voters}
    mine, missing = rows[leader.me.id], rows[3]
    assert (mine.end_offset, mine.fetched_ms, mine.caught_up_ms) == (
        leader.log.end,
        net.now.wall_ms,
        net.now.wall_ms,
    )
    assert (missing.end_offset, missing.fetched_ms, missing.caught_up_ms) == (-1, -1, -1)


def test_d4_a_current_replica_was_caught_up_when_it_last_fetched() -> None:
    net = CoreNetwork(1, 2, 3)
    net.pass_time(5000)
    follower = next(
        row for row in description_by_leader(net).voters if row.key.id != net.leader().me.id
    )
    assert follower.end_offset == net.leader().log.end
    assert follower.caught_up_ms == follower.fetched_ms
    assert net.now.wall_ms - follower.fetched_ms <= 500


def test_d7_a_silent_observer_disappears_and_a_silent_voter_does_not() -> None:
    """C94, C116."""
    net = CoreNetwork(1, 2, 3, 4, voters=(1, 2, 3))
    net.pass_time(5000)
    silent_voter = next(i for i in (1, 2, 3) if i != net.leader().me.id)
    assert [row.key.id for row in description_by_leader(net).observers] == [4]
    net.isolate(4)
    net.isolate(silent_voter)
    replicas = net.leader().role.progress.replicas  # type: ignore[attr-defined]  # a Leader
    observer = next(progress for key, progress in replicas.items() if key.id == 4)
    just_before = Now(observer.fetched_at + 5 * 60 * 1000 - 1, 0)
    for now, listed in ((just_before, [4]), (Now(just_before.monotonic_ms + 1, 0), [])):
        description = describe(net.leader(), now)
        assert description is not None
        assert [row.key.id for row in description.observers] == listed
        assert [row.key.id for row in description.voters] == [1, 2, 3]


def test_d7_the_number_of_observers_is_limited() -> None:
    """All voters are kept, however long they have been silent, and the newest observers."""
    net = CoreNetwork(1, 2, 3, 4, voters=(1, 2, 3))
    net.pass_time(5000)
    progress = net.leader().role.progress  # type: ignore[attr-defined]  # its role is Leader
    for number in range(2 * MAX_TRACKED):
        progress.note_snapshot_needed(ReplicaKey(100 + number, bytes(16)), Now(10_000 + number, 0))
    tracked_ids = [key.id for key in progress.replicas]
    assert len(tracked_ids) == MAX_TRACKED
    others = {i for i in (1, 2, 3) if i != net.leader().me.id}
    assert others < set(tracked_ids)
    assert 4 not in tracked_ids
    assert tracked_ids[-1] == 99 + 2 * MAX_TRACKED


def test_r13_targets_are_shown_while_there_are_any() -> None:
    net = CoreNetwork(1, 2, 3, voters=(1,))
    net.pass_time(1000)
    assert description_by_leader(net).targets is None
    net.leader().reassign("grow", (1, 2, 9), net.now)
    net.pass_time(5000)
    description = description_by_leader(net)
    assert description.targets == (1, 2, 9)
    assert [row.is_target for row in description.voters] == [True, True]
    assert [row.is_target for row in description.observers] == [False]


def test_d1_the_high_watermark_is_unknown_until_the_epoch_has_committed() -> None:
    """C43: until then it is -1."""
    net = CoreNetwork(1, 2, 3)
    net.pass_time(5000)
    assert description_by_leader(net).high_watermark == net.leader().log.high_watermark
    leader = net.leader()
    leader.role.epoch_start = leader.log.high_watermark  # type: ignore[attr-defined]  # its role is Leader
    assert description_by_leader(net).high_watermark == -1


def lag_reasons(net: CoreNetwork) -> dict[int, tuple[str, int]]:
    description = description_by_leader(net)
    return {
        row.key.id: (row.lag_reason, row.last_error)
        for row in (*description.voters, *description.observers)
    }


def test_d4_a_lagging_replica_is_described_with_the_reason() -> None:
    net = CoreNetwork(1, 2, 3, 4, 5)
    net.isolate(5)
    net.pass_time(5000)
    leader = net.leader()
    others = [i for i in (1, 2, 3, 4) if i != leader.me.id]
    assert lag_reasons(net) == {**dict.fromkeys((1, 2, 3, 4), ("", 0)), 5: (NEVER, 0)}
    net.isolate(others[0])
    net.pass_time(leader.config.fetch_timeout_ms + 1)
    assert lag_reasons(net)[others[0]] == ("silent", 0)
    fetcher = net.core(others[1]).me
    election, log = leader.election, leader.log
    fetch = Fetch(None, fetcher, election.epoch - 1, log.end, log.last_epoch - 1, 0, 0, 100)
    leader.handle(Request("pending", fetch), net.now)
    assert lag_reasons(net)[others[1]] == ("refused", ErrorCode.FENCED_LEADER_EPOCH)
    beyond = fetch.replace(epoch=election.epoch, offset=log.end + 9, last_epoch=log.last_epoch)
    leader.handle(Request("pending", beyond), net.now)
    leader.take_effects()
    assert lag_reasons(net)[others[1]] == ("diverged", 0)
    net.pass_time(1000)
    assert lag_reasons(net)[others[1]] == ("", 0)
    leader.handle(PeerDown(others[1]), net.now)
    assert lag_reasons(net)[others[1]] == ("down", 0)


def test_r13_uncommitted_voter_changes_are_marked() -> None:
    net = CoreNetwork(1, 2, 3, voters=(1, 2, 3))
    net.pass_time(5000)
    description = description_by_leader(net)
    assert (description.committed_voters, description.uncommitted_voters_offset) == (None, -1)
    leader = net.leader()
    removed = next(i for i in (1, 2, 3) if i != leader.me.id)
    end = leader.log.end
    assert not leader.remove_voter("removal", net.core(removed).me, net.now)
    description = description_by_leader(net)
    assert removed not in [row.key.id for row in description.voters]
    assert (description.committed_voters, description.uncommitted_voters_offset) == ((1, 2, 3), end)
    net.pass_time(1000)
    assert description_by_leader(net).committed_voters is None
