"""Voters configured by id, whose directory ids are recorded later (R11)."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import (
    Endpoint,
    ReplicaKey,
    Voter,
    VoterHistory,
    VoterSet,
    voters_by_id,
)
from kraftlog.raft.core import RaftCore
from kraftlog.raft.log import RaftLog
from kraftlog.raft.messages import ElectionState, Proposed
from kraftlog.types import NULL_UUID
from tests.raft.core_network import CoreNetwork
from tests.raft.single_core import FETCH_TIMEOUT_MS, SingleCore, committed_leader, key

IDS = (1, 2, 3)
#: Another directory of voter 2.
OTHER_DIRECTORY = ReplicaKey(2, b"o" * 16)


def elected_network() -> CoreNetwork:
    """Voters 1, 2, 3 known by id alone, with a leader."""
    net = CoreNetwork(*IDS)
    net.pass_time(5000)
    return net


def network_with_reports() -> CoreNetwork:
    """A quorum whose voters have all reported their directories to the leader."""
    net = elected_network()
    for voter_id in IDS:
        assert not net.leader().update_voter(f"reported {voter_id}", Voter(key(voter_id)), net.now)
    net.pass_time(1000)
    return net


def network_with_records() -> CoreNetwork:
    """A quorum whose voters' directories are all recorded."""
    net = network_with_reports()
    assert not net.leader().raise_kraft_version("raised", 1, net.now)
    net.pass_time(1000)
    return net


def recorded_voters(voters: VoterSet) -> list[int]:
    """The voters whose directories are recorded."""
    return [voter.key.id for voter in voters.voters if voter.key.directory_id != NULL_UUID]


def test_r11_static_voters_are_recorded_by_id_alone() -> None:
    """Nothing raises kraft.version by itself, as no command can lower it again."""
    net = network_with_reports()
    leader = net.leader()
    voters = leader.log.voter_set
    assert (recorded_voters(voters), voters.ids, voters.cluster_id) == ([], IDS, "cluster")
    assert voters.kraft_version == 0
    assert recorded_voters(leader.reported_voters) == list(IDS)
    outcomes = [
        effect for effect in net.hosts[leader.me.id].other_effects if isinstance(effect, Proposed)
    ]
    assert [(done.pending, done.error) for done in outcomes] == [(f"reported {i}", 0) for i in IDS]


def test_r11_raising_kraft_version_records_all_directories() -> None:
    """Its record precedes the voters in the same batch."""
    net = network_with_records()
    leader = net.leader()
    assert recorded_voters(leader.log.voter_set) == list(IDS)
    with_voters = [batch for batch in net.hosts[1].batches if batch.voters]
    sizes = [batch.last_offset - batch.base_offset + 1 for batch in with_voters]
    levels = [batch.voters.kraft_version for batch in with_voters]
    assert (sizes, levels) == ([2, 2], [0, 1])


@pytest.mark.parametrize(
    "voter", [None, Voter(key(2), max_version=0)], ids=["unknown", "without support"]
)
def test_r11_kraft_version_needs_every_voters_report_and_support(voter: Voter | None) -> None:
    """A new leader needs the reports again."""
    context = committed_leader(voters=voters_by_id(*IDS))
    for reporter in (voter, Voter(key(3))):
        if reporter is not None:
            assert not context.core.update_voter("reported", reporter, context.now)
    end = context.core.log.end
    outcome = context.core.raise_kraft_version("raised", 1, context.now)
    assert (outcome, context.core.log.end) == (ErrorCode.INVALID_UPDATE_VERSION, end)
    assert not context.core.update_voter("reported", Voter(key(2)), context.now)
    assert not context.core.raise_kraft_version("raised", 1, context.now)
    assert recorded_voters(context.core.log.voter_set) == list(IDS)


def fetch_as(context: SingleCore, *replicas: ReplicaKey) -> None:
    for replica in replicas:
        fetch = context.fetch(replica.id, replica=replica, max_wait_ms=0)
        context.ask(fetch, channel=replica)


def raise_kraft_version(context: SingleCore) -> int:
    return context.core.raise_kraft_version("raised", 1, context.now)


def reporting_leader() -> SingleCore:
    """A leader whose static voters 2 and 3 fetch and have reported their directories."""
    context = committed_leader(voters=voters_by_id(*IDS))
    for voter_id in (2, 3):
        assert not context.core.update_voter("reported", Voter(key(voter_id)), context.now)
    return context


def test_r11_a_directory_that_no_longer_fetches_is_not_recorded() -> None:
    """The voter reported and then stopped; its disk may be lost."""
    context = reporting_leader()
    context.wait(FETCH_TIMEOUT_MS)
    fetch_as(context, key(2))
    assert raise_kraft_version(context) == ErrorCode.INVALID_UPDATE_VERSION
    assert context.core.missing_report_reasons == {3: "is not fetching: start it"}
    assert recorded_voters(context.core.reported_voters) == [1, 2]
    fetch_as(context, key(3))
    assert raise_kraft_version(context) == ErrorCode.NONE


def test_r11_no_directory_is_recorded_while_two_fetch_with_one_id() -> None:
    context = reporting_leader()
    fetch_as(context, OTHER_DIRECTORY)
    assert raise_kraft_version(context) == ErrorCode.INVALID_UPDATE_VERSION
    assert "two directories" in context.core.missing_report_reasons[2]


@pytest.mark.parametrize("reporter", [1, 2], ids=["leader's id", "follower's id"])
def test_r11_a_directory_that_does_not_fetch_is_not_recorded(reporter: int) -> None:
    """A second process with the same node.id was the last to report."""
    context = reporting_leader()
    other = Voter(ReplicaKey(reporter, OTHER_DIRECTORY.directory_id))
    assert not context.core.update_voter("reported", other, context.now)
    assert (2 in context.core.missing_report_reasons) is (reporter == 2)
    if reporter == 2:
        assert raise_kraft_version(context) == ErrorCode.INVALID_UPDATE_VERSION
        assert not context.core.update_voter("reported", Voter(key(2)), context.now)
    assert raise_kraft_version(context) == ErrorCode.NONE
    assert [voter.key for voter in context.core.log.voter_set.voters] == [key(i) for i in IDS]


def test_r11_a_new_leader_reports_that_its_voters_have_not_reported_yet() -> None:
    context = committed_leader(voters=voters_by_id(*IDS))
    assert raise_kraft_version(context) == ErrorCode.INVALID_UPDATE_VERSION
    obstacle = "has not reported since the leader changed: try again"
    assert context.core.missing_report_reasons == {2: obstacle, 3: obstacle}


@pytest.mark.parametrize("directory", [NULL_UUID, b"x" * 16], ids=["none", "another"])
def test_r11_a_recorded_directory_is_never_replaced(directory: bytes) -> None:
    net = network_with_records()
    leader = net.leader()
    update = Voter(ReplicaKey(2, directory))
    assert leader.update_voter("x", update, net.now) == ErrorCode.VOTER_NOT_FOUND
    assert leader.log.voter_set.voter(2) == Voter(key(2))


def test_r11_the_next_change_adds_a_missing_cluster_id() -> None:
    """An older log, or one of Kafka's: its voters have no cluster id."""
    context = committed_leader()
    assert context.core.log.voter_set.cluster_id is None
    moved = Voter(key(1), (Endpoint("C", "h", 1),))
    assert not context.core.update_voter("moved", moved, context.now)
    assert context.core.log.voter_set.cluster_id == "cluster"


def wipe(net: CoreNetwork, replica_id: int) -> None:
    """The node is formatted again: another directory, an empty log, the same settings."""
    log = RaftLog(VoterHistory(voters_by_id(*IDS)))
    host = net.host_type(net, replica_id, ElectionState(), log)
    host.core = RaftCore(
        ReplicaKey(replica_id, b"w" * 16),
        log,
        ElectionState(),
        host.core.config,
        net.now,
        "cluster",
    )
    net.hosts[replica_id] = host


def test_r11_a_wiped_voter_elects_no_leader_without_committed_records() -> None:
    """V23: its recorded directory id is another one.

    One node is down, one is wiped, and one was paused and lacks an acknowledged record.
    """
    net = network_with_records()
    leader = net.leader()
    wiped, paused = [i for i in IDS if i != leader.me.id]
    net.isolate(paused)
    assert not leader.propose("topic", 1, 10, None, net.now)
    net.pass_time(500)
    effects = net.hosts[leader.me.id].other_effects
    assert [e.error for e in effects if isinstance(e, Proposed) and e.pending == "topic"] == [0]
    committed = leader.log.end
    net.isolate(leader.me.id)
    wipe(net, wiped)
    net.cut = {pair for pair in net.cut if leader.me.id in pair}
    net.pass_time(60_000)
    assert [i for i in (wiped, paused) if net.core(i).role.name == "leader"] == []
    net.heal()
    net.pass_time(60_000)
    assert net.leader().me.id != wiped
    assert {net.core(i).log.end >= committed for i in IDS} == {True}
    assert net.core(wiped).role.name == "observer"
