"""Voter changes: R1 to R8, R11, R12."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import Voter, VoterHistory, voters_by_id
from kraftlog.raft.core import RaftCore
from kraftlog.raft.messages import ClusterIdKnown, Proposed, Request, Vote
from tests.raft.core_network import CoreNetwork
from tests.raft.single_core import committed_leader, key, voters_of


def elected_network(*ids: int, voters: tuple[int, ...]) -> CoreNetwork:
    """A quorum with a leader, and all replicas caught up."""
    net = CoreNetwork(*ids, voters=voters)
    net.pass_time(5000)
    return net


def outcome(net: CoreNetwork, pending: str) -> list[int]:
    """The error codes that any replica has reported for a proposal."""
    effects = [effect for host in net.hosts.values() for effect in host.other_effects]
    return [e.error for e in effects if isinstance(e, Proposed) and e.pending == pending]


def voter_sets_in_log(core: RaftCore) -> list[tuple[int, ...]]:
    return [voters.ids for _, voters in core.log.voters.entries]


def targets_of(core: RaftCore) -> tuple[int, ...] | None:
    return core.log.voter_set.targets


def check_settled(net: CoreNetwork, *ids: int) -> None:
    """Check that all replicas have the leader's log, these voters and no target."""
    assert {core.log.end for core in cores(net)} == {net.leader().log.end}
    for core in cores(net):
        assert core.log.voter_set.ids == ids
        assert core.log.voter_set.targets is None
        assert core.log.high_watermark == core.log.end
        assert (core.role.name == "observer") == (core.me.id not in ids)
    assert net.leader().me.id in ids


def cores(net: CoreNetwork) -> list[RaftCore]:
    return [host.core for host in net.hosts.values()]


@pytest.mark.parametrize(
    ("voters", "targets"),
    [
        ((1,), (1, 2, 3)),
        ((1,), (1, 2, 3, 4, 5)),
        ((1,), (2,)),
        ((1, 2, 3), (4, 5, 6)),
        ((1, 2, 3, 4, 5), (2,)),
        ((1, 2, 3), (2, 3, 4)),
        ((1, 2, 3, 4), (1, 2)),
    ],
)
def test_r3_r6_r12_a_target_is_reached_in_single_steps(
    voters: tuple[int, ...], targets: tuple[int, ...]
) -> None:
    """Grow, shrink, move: consecutive sets differ by at most one voter, and no target remains."""
    net = elected_network(1, 2, 3, 4, 5, 6, voters=voters)
    leader = net.leader()
    assert leader.propose("before", 1, 10, None, net.now) == ErrorCode.NONE
    assert leader.reassign("change", targets, net.now) == ErrorCode.NONE
    net.pass_time(60_000)
    check_settled(net, *targets)
    assert outcome(net, "before") == outcome(net, "change") == [ErrorCode.NONE]
    sets = [set(ids) for ids in voter_sets_in_log(net.leader())]
    for before, after in pairwise(sets):
        assert len(before ^ after) <= 1


def test_r1_a_truncated_change_restores_the_previous_set() -> None:
    """R1: voter sets apply when appended and revert on truncation. C110, C112."""
    net = elected_network(1, 2, 3, 4, voters=(1, 2, 3))
    old = net.leader()
    net.isolate(old.me.id)
    old.reassign("lost", (1, 2, 3, 4), net.now)
    net.settle()
    assert targets_of(old) == (1, 2, 3, 4)
    net.pass_time(10_000)
    assert net.leader() is not old
    net.heal()
    net.pass_time(10_000)
    assert targets_of(old) is None
    assert outcome(net, "lost") == [ErrorCode.REQUEST_TIMED_OUT]
    check_settled(net, 1, 2, 3)


def test_r1_truncation_restores_the_voters_before_the_offset() -> None:
    """C110: truncating a voters record restores the set before it."""
    history = VoterHistory(voters_by_id(1))
    history.append(5, voters_by_id(1, 2))
    history.append(9, voters_by_id(1, 2, 3))
    assert history.committed(9).ids == (1, 2)
    assert history.truncate(9)
    assert history.latest.ids == (1, 2)
    assert not history.truncate(9)
    history.trim(6)
    assert (history.base.ids, history.entries) == ((1, 2), ())


def test_r2_a_target_that_is_reached_already_appends_nothing() -> None:
    """R2: a client may repeat its request after a timeout."""
    net = elected_network(1, 2, 3, voters=(1, 2, 3))
    leader = net.leader()
    end = leader.log.end
    assert leader.reassign("same", (3, 2, 1), net.now) == ErrorCode.NONE
    assert leader.log.end == end
    net.deliver_all()
    assert outcome(net, "same") == [ErrorCode.NONE]


@pytest.mark.parametrize("targets", [(), (1, 1), (-1,)])
def test_r2_impossible_targets_are_refused(targets: tuple[int, ...]) -> None:
    net = elected_network(1, voters=(1,))
    code = net.leader().reassign("bad", targets, net.now)
    assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_r2_a_target_can_be_replaced_and_cancelled() -> None:
    """R2: a new target replaces an unfinished one; null keeps the current voters."""
    net = elected_network(1, 2, 3, voters=(1,))
    leader = net.leader()
    assert leader.reassign("none", None, net.now) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert leader.reassign("unknown voter", (1, 9), net.now) == ErrorCode.NONE
    net.pass_time(5000)
    assert leader.log.voter_set.targets == (1, 9)
    assert leader.log.voter_set.ids == (1,)
    leader.reassign("instead", (1, 2), net.now)
    net.pass_time(5000)
    check_voters(net, 1, 2)
    leader.reassign("unknown voter", (1, 2, 9), net.now)
    net.deliver_all()
    assert leader.reassign("back", None, net.now) == ErrorCode.NONE
    net.pass_time(5000)
    check_voters(net, 1, 2)
    assert outcome(net, "back") == [ErrorCode.NONE]


def check_voters(net: CoreNetwork, *ids: int) -> None:
    assert net.leader().log.voter_set.ids == ids
    assert net.leader().log.voter_set.targets is None


def test_r2_only_the_leader_accepts_a_target() -> None:
    """C106: others refuse it."""
    net = elected_network(1, 2, 3, voters=(1, 2, 3))
    follower = next(core for core in cores(net) if core is not net.leader())
    assert follower.reassign("x", (1,), net.now) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_r3_no_change_before_a_record_of_the_epoch_is_committed() -> None:
    """R3 (Ongaro 2015): otherwise two leaders' changes could have disjoint majorities. C106."""
    net = elected_network(1, 2, 3, 4, voters=(1, 2, 3))
    net.isolate(net.leader().me.id)
    net.pass_time(4000)
    leader = net.leader()
    net.isolate(leader.me.id)
    sets = len(leader.log.voters.entries)
    leader.log.high_watermark = min(leader.log.high_watermark, leader.role.epoch_start)  # type: ignore[attr-defined]  # its role is Leader
    assert leader.add_voter("early", Voter(net.core(4).me), net.now) == ErrorCode.REQUEST_TIMED_OUT
    assert len(leader.log.voters.entries) == sets


def test_r4_a_step_waits_for_a_new_voter_to_catch_up() -> None:
    net = elected_network(1, 2, 3, 4, voters=(1, 2, 3))
    leader = net.leader()
    for other in (1, 2, 3):
        net.cut |= {(4, other), (other, 4)}
    net.pass_time(5000)
    leader.reassign("move", (2, 3, 4), net.now)
    net.pass_time(5000)
    assert net.leader().log.voter_set.ids == (1, 2, 3)
    net.heal()
    net.pass_time(20_000)
    check_settled(net, 2, 3, 4)


def test_r5_the_leader_leaves_last() -> None:
    """R5: the leader that is to leave is removed by its successor."""
    net = elected_network(1, 2, 3, voters=(1,))
    net.leader().reassign("away", (2, 3), net.now)
    net.pass_time(30_000)
    check_settled(net, 2, 3)
    assert net.core(1).election.leader_id in {2, 3}


def test_r6_the_next_leader_continues_from_the_log() -> None:
    net = elected_network(1, 2, 3, 4, 5, voters=(1, 2, 3))
    first = net.leader()
    first.reassign("grow", (1, 2, 3, 4, 5), net.now)
    net.deliver_all()
    net.isolate(first.me.id)
    net.pass_time(30_000)
    second = net.leader()
    assert second is not first
    assert second.log.voter_set.ids == (1, 2, 3, 4, 5)
    net.heal()
    net.pass_time(20_000)
    check_settled(net, 1, 2, 3, 4, 5)


def test_r7_a_removed_voter_becomes_an_observer_and_fetches() -> None:
    """C113: it keeps fetching in the same epoch."""
    net = elected_network(1, 2, 3, voters=(1, 2, 3))
    leader = net.leader()
    removed = next(core for core in cores(net) if core is not leader)
    assert leader.remove_voter("out", removed.me, net.now) == ErrorCode.NONE
    net.pass_time(3000)
    assert removed.role.name == "observer"
    epoch = leader.election.epoch
    leader.propose("on", 1, 10, None, net.now)
    net.pass_time(10_000)
    assert removed.log.end == leader.log.end
    assert leader.election.epoch == epoch


def test_r8_a_non_voter_does_not_disrupt_a_follower() -> None:
    """R8: not even its epoch is adopted."""
    net = elected_network(1, 2, 3, 4, voters=(1, 2, 3))
    non_voter = net.core(4)
    for core in cores(net):
        if core is non_voter:
            continue
        for pre_vote in (True, False):
            vote = Vote("cluster", core.me, 99, non_voter.me, 90, 1000, pre_vote)
            core.handle(Request("vote", vote), net.now)
            assert core.election.epoch < 99


def test_r8_without_a_leader_a_non_voter_is_treated_like_a_voter() -> None:
    """R8: voters 1, 2, 3 grow to five; 3 lacks both changes; 1 and 2 fail, so 4 and 5 need 3."""
    net = elected_network(1, 2, 3, 4, 5, voters=(1, 2, 3))
    for other in net.hosts:
        net.cut |= {(3, other), (other, 3)}
    net.pass_time(5000)
    net.leader().reassign("grow", (1, 2, 3, 4, 5), net.now)
    net.pass_time(10_000)
    assert net.core(4).log.voter_set.ids == (1, 2, 3, 4, 5)
    assert net.core(3).log.voter_set.ids == (1, 2, 3)
    net.heal()
    net.isolate(1)
    net.isolate(2)
    net.pass_time(20_000)
    assert net.leader().me.id in {4, 5}
    net.heal()
    net.pass_time(20_000)
    check_settled(net, 1, 2, 3, 4, 5)


def test_r11_the_first_leader_records_voters_and_cluster_id() -> None:
    net = elected_network(1, 2, 3, voters=(1, 2, 3))
    recorded = net.leader().log.voters.entries
    assert recorded[0][1].ids == (1, 2, 3)
    assert recorded[0][1].cluster_id == "cluster"
    net.isolate(net.leader().me.id)
    net.pass_time(10_000)
    assert len(net.leader().log.voters.entries) == len(recorded), (
        "only the first leader records them"
    )


def test_q29_a_node_keeps_the_cluster_id_once_it_is_committed() -> None:
    """Q29, Q30: while it is unknown, requests carry null, which skips the check."""
    net = CoreNetwork(1, 2, 3)
    for core in cores(net):
        core.cluster_id = None
    net.core(1).config.fresh_cluster_id = "one"
    net.core(2).config.fresh_cluster_id = "two"
    net.core(3).config.fresh_cluster_id = "three"
    net.pass_time(5000)
    (cluster_id,) = {core.cluster_id for core in cores(net)}
    assert cluster_id in {"one", "two", "three"}
    for host in net.hosts.values():
        cluster_ids = [e.cluster_id for e in host.other_effects if isinstance(e, ClusterIdKnown)]
        assert cluster_ids == [cluster_id]


def test_single_changes_return_kafkas_error_codes() -> None:
    """R2: AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter, also while a target is set.

    C107, C108, C109.
    """
    net = elected_network(1, 2, 3, 4, voters=(1, 2, 3))
    leader = net.leader()
    new_voter = Voter(net.core(4).me)
    non_voter = Voter(new_voter.key.replace(id=9))
    assert leader.add_voter("x", Voter(net.core(1).me), net.now) == ErrorCode.DUPLICATE_VOTER
    assert leader.add_voter("x", non_voter, net.now) == ErrorCode.REQUEST_TIMED_OUT
    assert leader.remove_voter("x", non_voter.key, net.now) == ErrorCode.VOTER_NOT_FOUND
    assert leader.update_voter("x", non_voter, net.now) == ErrorCode.VOTER_NOT_FOUND
    assert leader.add_voter("in", new_voter, net.now) == ErrorCode.NONE
    assert leader.remove_voter("x", new_voter.key, net.now) == ErrorCode.REQUEST_TIMED_OUT
    net.pass_time(3000)
    assert outcome(net, "in") == [ErrorCode.NONE]
    leader.reassign("target", (1, 2, 3, 4, 9), net.now)
    net.pass_time(1000)
    code = leader.remove_voter("x", new_voter.key, net.now)
    assert code == ErrorCode.REASSIGNMENT_IN_PROGRESS


def test_a_leader_that_removes_itself_resigns_once_committed() -> None:
    """KAFKA-17608, KAFKA-16530: the new majority commits its removal before it resigns.

    Its high watermark does not decrease. C111, C137, C138.
    """
    net = elected_network(1, 2, 3, voters=(1, 2, 3))
    leader = net.leader()
    assert leader.remove_voter("me", leader.me, net.now) == ErrorCode.NONE
    assert leader.role.name == "leader"
    net.pass_time(10_000)
    assert outcome(net, "me") == [ErrorCode.NONE]
    assert leader.role.name == "observer"
    assert net.leader() is not leader
    check_settled(net, *[core.me.id for core in cores(net) if core is not leader])


def test_the_last_voter_cannot_be_removed() -> None:
    """C109: with INVALID_REQUEST."""
    net = elected_network(1, voters=(1,))
    leader = net.leader()
    assert leader.remove_voter("x", leader.me, net.now) == ErrorCode.INVALID_REQUEST


def test_r12_the_next_change_records_removals_that_kafka_left_out() -> None:
    """An earlier leader, a controller of Apache Kafka, has removed 4."""
    context = committed_leader()
    voters = context.core.log.voters
    voters.entries = ((0, voters_of(1, 2, 3, 4)), (1, voters_of(1, 2, 3)))
    assert context.core.remove_voter("removed", key(3), context.now) == ErrorCode.NONE
    assert context.core.log.voter_set.removed == (key(4), key(3))
