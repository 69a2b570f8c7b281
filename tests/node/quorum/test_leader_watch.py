"""LeaderWatch: logs a missing leader with the missing voters, and then the next leader."""

from __future__ import annotations

import pytest

from kraftlog import effects
from kraftlog.logstate.voters import ReplicaKey
from kraftlog.node.quorum.leader_watch import LOG_AFTER_MS, REPEAT_MS, LeaderWatch
from kraftlog.raft import messages as raft
from kraftlog.raft.messages import ElectionState
from kraftlog.raft.roles.follower import Follower
from kraftlog.types import Now
from kraftlog.wire.messages.vote import VoteResponse
from tests.node.quorum.test_driver import NOW, driver_with_voters

LATER = Now(LOG_AFTER_MS, 0)


class WatchedQuorum:
    """The `LeaderWatch` of replica 1 in a quorum of these voters, none of which has responded."""

    def __init__(self, *voter_ids: int) -> None:
        machine, _ = driver_with_voters(*voter_ids)
        assert machine.driver is not None
        self.driver = machine.driver
        self.lines: list[str] = []
        self.watch = LeaderWatch(self.driver, self.lines.append)
        self.watch.poll(NOW)

    def send(self, peer: int, number: int) -> None:
        self.driver._carry_out[raft.Send](raft.Send(peer, number, VOTE, (), False), NOW)

    def fail_request(self, peer: int, number: int, reason: str) -> None:
        self.send(peer, number)
        self.driver.handle(effects.RequestFailed("quorum", peer, number, reason), NOW)

    def receive_response(self, peer: int, number: int) -> None:
        self.send(peer, number)
        response = effects.ResponseReceived("quorum", peer, number, NO_PARTITION)
        self.driver.handle(response, NOW)


VOTE = raft.Vote("cluster", ReplicaKey(2), 1, ReplicaKey(1), 0, 0, pre_vote=True)
NO_PARTITION = VoteResponse(error_code=0, topics=())


def test_missing_voters_are_logged_with_the_reason_of_each() -> None:
    watched = WatchedQuorum(1, 2, 3, 4, 5)
    watched.fail_request(2, 91, "Connection refused")
    watched.fail_request(3, 92, "the host name node3 is unknown")
    watched.receive_response(4, 93)
    watched.watch.poll(Now(LOG_AFTER_MS - 1, 0))
    assert watched.lines == []
    watched.watch.poll(LATER)
    [line] = watched.lines
    assert line == (
        "quorum: this node has known no leader for 5 s. A leader needs 3 of the voters 1, 2, 3, 4, "
        "5; this node sees 2 of them: voter 1 is this node; voter 2 at 127.0.0.1:9092: Connection "
        "refused; voter 3 at 127.0.0.1:9093: the host name node3 is unknown; voter 4 at "
        "127.0.0.1:9094: responds; voter 5 at 127.0.0.1:9095: not tried yet. Start the voters that "
        "do not respond, or check these addresses and the network. Only if too many of them are "
        "lost for good, see kraftlog quorum repair --help"
    )


def test_the_line_about_a_missing_leader_is_repeated_rarely() -> None:
    watched = WatchedQuorum(1, 2, 3)
    watched.watch.poll(LATER)
    assert watched.watch.deadline() == LOG_AFTER_MS + REPEAT_MS
    watched.watch.poll(Now(LOG_AFTER_MS + REPEAT_MS - 1, 0))
    assert len(watched.lines) == 1
    watched.watch.poll(Now(LOG_AFTER_MS + REPEAT_MS, 0))
    assert "no leader for 65 s" in watched.lines[1]


def test_with_a_responding_majority_the_line_refers_to_their_logs() -> None:
    watched = WatchedQuorum(1, 2, 3)
    watched.receive_response(2, 91)
    watched.watch.poll(LATER)
    [line] = watched.lines
    assert "this node sees 2 of them" in line
    assert line.endswith("if this line comes again, read the logs of these voters")


@pytest.mark.parametrize(("found_ms", "lines"), [(LOG_AFTER_MS - 1, 0), (LOG_AFTER_MS + 7000, 2)])
def test_the_next_leader_is_logged_only_after_a_line_about_its_absence(
    found_ms: int, lines: int
) -> None:
    watched = WatchedQuorum(1, 2, 3)
    watched.watch.poll(Now(min(found_ms, LOG_AFTER_MS), 0))
    core = watched.driver.core
    core.now = Now(found_ms, 0)
    core.become("follower", ElectionState(1, 2))
    assert isinstance(core.role, Follower)
    core.role.heard_at = found_ms
    watched.watch.poll(Now(found_ms, 0))
    assert watched.watch.deadline() is None
    assert len(watched.lines) == lines
    if lines:
        assert watched.lines[-1].endswith("after 12 s without a leader")


def test_a_node_without_voters_leaves_logging_to_discovery() -> None:
    watched = WatchedQuorum()
    watched.watch.poll(LATER)
    assert watched.lines == []


def test_a_line_about_voters_leaves_the_core_unchanged() -> None:
    watched = WatchedQuorum(1, 2, 3)
    watched.driver.contacts.answered(2)
    peers = dict(watched.driver.core.peers)
    watched.watch.poll(LATER)
    assert len(watched.lines) == 1
    assert watched.driver.core.peers == peers


def test_an_aborted_request_does_not_change_the_state_of_a_voter() -> None:
    watched = WatchedQuorum(1, 2, 3)
    watched.receive_response(2, 91)
    watched.send(2, 92)
    aborted = effects.RequestFailed("quorum", 2, 92, "another request", is_aborted=True)
    watched.driver.handle(aborted, NOW)
    watched.watch.poll(LATER)
    assert "voter 2 at 127.0.0.1:9092: responds" in watched.lines[0]


def test_a_voter_that_is_too_old_responds_but_does_not_vote() -> None:
    watched = WatchedQuorum(1, 2, 3)
    watched.send(2, 91)
    watched.driver.handle(effects.VersionUnsupported("quorum", 2, 91), NOW)
    watched.watch.poll(LATER)
    assert "9092: responds, but does not support this version of Vote;" in watched.lines[0]


def test_an_address_from_a_peer_cannot_forge_a_line() -> None:
    watched = WatchedQuorum(1, 2, 3)
    watched.driver.contacts.failed(2, ("host\nall is well", 9092), "Connection refused")
    watched.watch.poll(LATER)
    [line] = watched.lines
    assert "voter 2 at host?all is well:9092: Connection refused" in line
