"""Known bugs of other systems, each of which lost data or made a cluster unavailable."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey
from kraftlog.raft.messages import (
    MAX_EPOCH,
    Committed,
    ElectionState,
    Fetch,
    FetchResult,
    Proposed,
    ReadOffset,
    ReadOffsetResult,
    Request,
    Response,
    SnapshotFetch,
    Truncate,
    Vote,
)
from kraftlog.types import OffsetAndEpoch
from tests.raft.faulty_core_network import FaultyNetwork
from tests.raft.single_core import (
    CHECK_QUORUM_TIMEOUT_MS,
    FETCH_TIMEOUT_MS,
    SingleCore,
    committed_leader,
    end_epoch,
    follower,
    key,
    leader,
    of_kind,
    replies,
    voters_of,
)


def elected_network(*ids: int) -> FaultyNetwork:
    net = FaultyNetwork(*ids)
    net.pass_time(5000)
    check_same_logs(net)
    return net


def follower_ids(net: FaultyNetwork) -> list[int]:
    return [replica_id for replica_id in net.hosts if replica_id != net.leader().me.id]


def propose(net: FaultyNetwork, pending: str, replica_id: int = -1) -> None:
    core = net.core(replica_id) if replica_id >= 0 else net.leader()
    assert core.propose(pending, 1, 70, pending, net.now) == 0


def outcome(net: FaultyNetwork, pending: str) -> list[int]:
    effects = [effect for host in net.hosts.values() for effect in host.other_effects]
    return [e.error for e in effects if isinstance(e, Proposed) and e.pending == pending]


def payloads(net: FaultyNetwork, replica_id: int) -> list[Any]:
    return [
        batch.payload for batch in net.hosts[replica_id].batches if isinstance(batch.payload, str)
    ]


def check_same_logs(net: FaultyNetwork) -> None:
    """Check that all replicas have the same log, and know that all of it is committed."""
    logs = [host.batches for host in net.hosts.values()]
    assert all(log == logs[0] for log in logs)
    assert set(net.high_watermarks().values()) == {net.leader().log.end}


# False progress -----------------------------------------------------------------------------


def test_q21_a_fetch_of_an_older_epoch_moves_no_high_watermark() -> None:
    """The first design of KIP-320: the fetcher followed another leader. C124."""
    context = leader()
    answer = context.response_to(context.fetch(2, epoch=4, offset=11, last_epoch=4))
    assert (answer.error, context.core.log.high_watermark) == (ErrorCode.FENCED_LEADER_EPOCH, 0)


def test_q21_a_diverging_fetch_moves_no_high_watermark() -> None:
    """KAFKA-13141: an old leader returns with a longer log than the new one's. C125."""
    net = elected_network(1, 2, 3)
    old = net.leader()
    net.isolate(old.me.id)
    for pending in "abcdefgh":
        propose(net, pending, old.me.id)
    net.pass_time(10_000)
    new = net.leader()
    assert old.log.end > new.log.end
    before = new.log.high_watermark
    fetch = Fetch("cluster", old.me, new.election.epoch, old.log.end, old.log.last_epoch, 0, 500, 9)
    new.handle(Request((9, new.me.id, 1), fetch, "direct", 1), net.now)
    assert new.log.high_watermark == before
    net.heal()
    net.pass_time(5000)
    check_same_logs(net)
    assert payloads(net, old.me.id) == []


def test_q19_many_elections_without_a_record_end_in_logs_that_agree() -> None:
    """KAFKA-10706: the fetch loop must end, which `deliver_all` checks. C126."""
    net = elected_network(1, 2, 3, 4, 5)
    for _ in range(6):
        net.isolate(net.leader().me.id)
        net.pass_time(400)
        net.heal()
        net.isolate(net.leader().me.id)
        net.pass_time(7000)
        net.heal()
    net.pass_time(10_000)
    check_same_logs(net)


def test_q19_logs_of_two_fast_leaders_converge() -> None:
    """KIP-279: a follower fetches with an epoch that the leader lacks. C58, C76, C122."""
    net = elected_network(1, 2, 3)
    for round_ in range(3):
        isolated = net.leader().me.id
        net.isolate(isolated)
        propose(net, f"lost {round_}", isolated)
        net.pass_time(10_000)
        propose(net, f"kept {round_}")
        net.pass_time(1000)
        net.heal()
        net.pass_time(5000)
    check_same_logs(net)
    assert payloads(net, 1) == ["kept 0", "kept 1", "kept 2"]
    assert [outcome(net, f"kept {n}") for n in range(3)] == [[0]] * 3
    assert [outcome(net, f"lost {n}") for n in range(3)] == [[ErrorCode.REQUEST_TIMED_OUT]] * 3


# Disks ---------------------------------------------------------------------------------------


def test_q6_what_a_follower_has_not_flushed_is_not_committed() -> None:
    """KAFKA-10533: a power loss must not decrease the high watermark. C129."""
    net = elected_network(1, 2, 3)
    slow, isolated = follower_ids(net)
    net.isolate(isolated)
    net.faulty_host(slow).slow = True
    before = net.leader().log.high_watermark
    propose(net, "a")
    net.deliver_all()
    assert net.core(slow).log.end == before + 1
    assert net.leader().log.high_watermark == before
    net.crash(slow)
    assert net.core(slow).log.end == before
    net.pass_time(1000)
    assert outcome(net, "a") == [0]  # this time the disk flushes
    assert payloads(net, slow) == ["a"]


@pytest.mark.parametrize("cut_off", [1, 2, 3])
def test_q8_committed_records_survive_a_power_loss_of_all(cut_off: int) -> None:
    """Q25: also while one of them is cut off."""
    net = elected_network(1, 2, 3)
    propose(net, "a")
    net.pass_time(1000)
    assert outcome(net, "a") == [0]
    epoch = net.leader().election.epoch
    net.crash(1, 2, 3)
    net.isolate(cut_off)
    net.pass_time(20_000)
    propose(net, "b")
    net.pass_time(1000)
    net.heal()
    net.pass_time(5000)
    check_same_logs(net)
    assert payloads(net, cut_off) == ["a", "b"]
    assert net.leader().election.epoch > epoch


def test_q3_a_vote_lost_in_a_crash_was_never_sent() -> None:
    """A double vote: granted, lost in the crash, granted to another candidate. C130."""
    net = FaultyNetwork(1, 2, 3)
    net.faulty_host(3).slow = True

    def request_vote(candidate: int) -> None:
        vote = Vote("cluster", ReplicaKey(-1), 1, key(candidate), 0, 0, False)
        net.core(3).handle(Request((candidate, 3, 99), vote, candidate, 99), net.now)
        net.hosts[3].settle()

    request_vote(1)
    assert (net.core(3).election.voted, net.replies) == (key(1), [])
    net.crash(3)
    assert net.core(3).election == ElectionState()
    request_vote(2)
    assert [(pending[0], body.granted) for pending, body in net.replies] == [(2, True)]
    net.crash(3)
    request_vote(1)
    assert [(pending[0], body.granted) for pending, body in net.replies][-1] == (1, False)


def test_q6_a_sole_voter_reports_no_commit_that_a_crash_could_lose() -> None:
    """etcd 14370. C131."""
    net = elected_network(1)
    net.faulty_host(1).slow = True
    propose(net, "a")
    net.deliver_all()
    assert outcome(net, "a") == []
    net.crash(1)
    assert payloads(net, 1) == []
    net.pass_time(5000)
    propose(net, "b")
    net.deliver_all()
    assert (outcome(net, "b"), payloads(net, 1)) == ([0], ["b"])


# Voters --------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["remove", "add"])
def test_r3_no_voter_change_before_the_first_commit_of_the_epoch(
    change: str,
) -> None:
    """Ongaro 2015: two leaders' changes could have majorities without a common member.

    C106, C107, C132.
    """
    from kraftlog.logstate.voters import Voter

    context = leader(voters=voters_of(1, 2, 3, 4))
    for _ in range(2):
        context.ask(context.fetch(9, max_wait_ms=0), channel=9)
        context.wait(10)

    def attempt(pending: str) -> int:
        if change == "remove":
            return context.core.remove_voter(pending, key(4), context.now)
        return context.core.add_voter(pending, Voter(key(9)), context.now)

    assert attempt("early") != 0
    assert context.core.log.end == 11
    for replica in (2, 3):
        context.ask(context.fetch(replica, max_wait_ms=0), channel=replica)
    assert attempt("now") == 0
    assert attempt("while that is pending") != 0
    assert context.core.log.end == 12


def test_q12_a_voter_with_a_new_directory_does_not_count_as_the_old_one() -> None:
    """Otherwise a replica that has lost its vote could cause a split brain. C87, C133."""
    wiped = ReplicaKey(3, bytes(15) + b"\x77")
    wiped_core = SingleCore(ElectionState(), me=wiped, end=0)
    assert wiped_core.role == "observer"
    answer = wiped_core.response_to(wiped_core.vote(2, receiver=key(3), epoch=1))
    assert (answer.error, answer.granted) == (ErrorCode.INVALID_VOTER_KEY, False)
    context = leader()
    context.ask(context.fetch(3, replica=wiped))
    assert context.core.log.high_watermark == 0
    context.wait(CHECK_QUORUM_TIMEOUT_MS)
    assert context.role == "resigned"


# Former leaders -----------------------------------------------------------------------------


def test_q11_a_leader_in_the_minority_resigns() -> None:
    """KAFKA-15489. C134."""
    net = elected_network(1, 2, 3, 4, 5)
    old = net.leader()
    follower_in_minority = follower_ids(net)[0]
    for member in (old.me.id, follower_in_minority):
        for other in set(net.hosts) - {old.me.id, follower_in_minority}:
            net.cut |= {(member, other), (other, member)}
    propose(net, "a", old.me.id)
    net.pass_time(CHECK_QUORUM_TIMEOUT_MS + 500)
    assert old.role.name != "leader"
    assert outcome(net, "a") == [ErrorCode.REQUEST_TIMED_OUT]
    net.pass_time(10_000)
    propose(net, "b")
    net.pass_time(1000)
    net.heal()
    net.pass_time(5000)
    check_same_logs(net)
    assert payloads(net, old.me.id) == ["b"]


def test_p3_a_lagging_voter_finds_the_leader_and_catches_up() -> None:
    """KAFKA-17030 and others: it can win no pre-vote, so it must find the leader. C14, C136."""
    net = elected_network(1, 2, 3)
    lagging = follower_ids(net)[0]
    net.isolate(lagging)
    for n in range(20):
        propose(net, f"{n}")
    net.pass_time(60_000)
    net.crash(lagging)
    net.pass_time(5000)
    net.heal()
    net.pass_time(3000)
    check_same_logs(net)
    assert net.core(lagging).role.name == "follower"


def test_p5_a_deposed_leader_serves_no_read_despite_late_fetches() -> None:
    """etcd 20418: late and repeated fetches must not confirm a newer read. C142."""
    net = elected_network(1, 2, 3)
    old = net.leader()
    net.isolate(old.me.id)
    follower_id = follower_ids(net)[0]
    peer = net.core(follower_id).peer(old.me.id)
    number, fetch = peer.in_flight, peer.request
    assert isinstance(fetch, Fetch)
    old.handle(Request(("client", old.me.id, 1), ReadOffset("cluster"), "client", 1), net.now)
    channel = net.channels[follower_id, number]
    for repeated_number in (number, number, number - 1):
        old.handle(
            Request((follower_id, old.me.id, repeated_number), fetch, channel, repeated_number),
            net.now,
        )
    effects = old.take_effects()
    assert [body for body in replies(effects) if isinstance(body, ReadOffsetResult)] == []
    net.pass_time(CHECK_QUORUM_TIMEOUT_MS)
    assert old.role.name != "leader"
    assert net.leader() is not old


def test_p5_no_read_before_a_record_of_the_epoch_is_committed() -> None:
    """etcd 7331: the new leader's high watermark may be below acknowledged records.

    C142, C143.
    """
    context = leader()
    for _ in range(3):
        effects = context.ask(ReadOffset("cluster"), channel="client")
        effects += context.ask(context.fetch(2, offset=10, last_epoch=1, max_wait_ms=0))
        assert not [body for body in replies(effects) if isinstance(body, ReadOffsetResult)]


# Numbers -------------------------------------------------------------------------------------


def test_q2_a_quorum_works_in_the_last_epoch() -> None:
    """C145."""
    context = SingleCore(ElectionState(MAX_EPOCH - 1, 2))
    assert context.response_to(context.begin_epoch(2, MAX_EPOCH)).error == 0
    assert context.state == ("follower", MAX_EPOCH, 2, -1)
    assert not context.response_to(context.vote(3, epoch=MAX_EPOCH)).granted


@pytest.mark.parametrize("offset", [2**63 - 1, 2**63 - 2, 12])
def test_q19_the_largest_offsets_are_just_beyond_the_log(offset: int) -> None:
    """C145."""
    context = committed_leader()
    answer = context.response_to(context.fetch(2, offset=offset))
    assert (answer.error, answer.diverging.offset) == (0, 11)
    assert context.core.log.high_watermark == 11


def test_q26_committed_records_are_reported_in_order_and_once() -> None:
    net = elected_network(1, 2, 3)
    for n in range(5):
        propose(net, f"{n}")
        net.isolate(net.leader().me.id)
        net.pass_time(10_000)
        net.heal()
        net.pass_time(3000)
    for host in net.hosts.values():
        offsets = [effect.offset for effect in of_kind(Committed, host.other_effects)]
        assert offsets == sorted(set(offsets))
        assert offsets[-1] == host.core.log.end


# Failovers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("both_restart", [False, True])
def test_q8_a_follower_that_restarts_and_then_leads_has_lost_nothing(both_restart: bool) -> None:
    """C121: it no longer knows the high watermark, and must not truncate to it."""
    net = elected_network(1, 2, 3)
    propose(net, "a")
    net.pass_time(1000)
    assert outcome(net, "a") == [0]
    first, (second, third) = net.leader().me.id, follower_ids(net)
    if both_restart:
        net.crash(second)
        assert net.core(second).log.high_watermark == 0
    net.isolate(first)
    net.crash(third)
    net.pass_time(10_000)
    assert net.leader().me.id != first
    assert payloads(net, second) == payloads(net, third) == ["a"]
    net.heal()
    net.pass_time(5000)
    check_same_logs(net)


@pytest.mark.parametrize("responder", [2, 3])
def test_q19_a_response_of_an_older_epoch_truncates_nothing(responder: int) -> None:
    """C123: its sender has truncated its own log since."""
    context = follower(epochs=((1, 0), (4, 5)), end=10)
    earlier_fetch = context.core.peer(2).in_flight
    diverging_result = FetchResult(0, 2, 5, 0, diverging=OffsetAndEpoch(3, 1))
    context.ask(context.begin_epoch(3, 6))
    number = earlier_fetch if responder == 2 else context.core.peer(3).in_flight
    assert of_kind(Truncate, context.step(Response(responder, number, diverging_result))) == []
    assert (context.core.log.end, context.state) == (10, ("follower", 6, 3, -1))


def test_p5_reads_after_a_failover_are_not_older_than_before() -> None:
    """C141, C143: the new leader's high watermark may be lower before a commit of its epoch."""
    net = elected_network(1, 2, 3)
    propose(net, "a")
    net.pass_time(1000)

    def read_at_the_leader(number: int) -> int:
        pending = ("client", net.leader().me.id, number)
        net.leader().handle(Request(pending, ReadOffset("cluster"), "client", number), net.now)
        answers = []
        for _ in range(100):
            net.settle()
            answers = [body for request, body in net.replies if request == pending]
            if answers:
                break
            if net.wire:
                net.deliver(net.wire.pop(0))
            elif net.replies:
                net.deliver_reply(*net.replies.pop(0))
            else:
                net.pass_time(50)
        net.replies = [reply for reply in net.replies if reply[0] != pending]
        (answer,) = answers
        assert answer.error == 0
        return int(answer.offset)

    before = read_at_the_leader(1)
    net.isolate(net.leader().me.id)
    net.pass_time(5000)
    assert read_at_the_leader(2) > before


def test_q25_a_later_epoch_completes_no_proposal_of_an_earlier_one() -> None:
    """C144: its records have replaced those at the same offsets."""
    context = committed_leader()
    context.propose("lost")
    effects = context.ask(context.begin_epoch(2, 6))
    assert of_kind(Proposed, effects) == [Proposed("lost", ErrorCode.REQUEST_TIMED_OUT)]
    context.respond(2, context.fetch_result(diverging=OffsetAndEpoch(11, 5), error=0))
    assert context.core.log.end == 11
    context.wait(FETCH_TIMEOUT_MS)
    context.respond(2, context.vote_result())
    context.respond(2, context.vote_result())
    assert (context.role, context.core.election.epoch, context.core.log.end) == ("leader", 7, 12)
    context.propose("kept")
    context.step()
    effects = context.ask(context.fetch(2, max_wait_ms=0))
    assert of_kind(Proposed, effects) == [Proposed("kept", 0, 13)]


# Invalid numbers ---------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [MAX_EPOCH, 6])
def test_q18_a_fetch_of_a_later_epoch_changes_no_epoch(epoch: int) -> None:
    """C145."""
    context = committed_leader()
    before = context.state
    assert (
        context.response_to(context.fetch(2, epoch=epoch)).error == ErrorCode.UNKNOWN_LEADER_EPOCH
    )
    chunk = SnapshotFetch("cluster", key(2), epoch, OffsetAndEpoch(4, 1), 2**63 - 1, 100)
    assert context.response_to(chunk).error == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert context.state == before


@pytest.mark.parametrize("epoch", [-1, -(2**31)])
def test_q16_begin_and_end_of_a_negative_epoch_are_fenced(epoch: int) -> None:
    """C145."""
    context = follower()
    before = context.state
    assert context.response_to(context.begin_epoch(3, epoch)).error == ErrorCode.FENCED_LEADER_EPOCH
    assert context.response_to(end_epoch(3, epoch, 1)).error == ErrorCode.FENCED_LEADER_EPOCH
    assert context.state == before
