"""A voter keeps its endpoints in the log up to date; a node finds its leader's current address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog import effects
from kraftlog.config.endpoints import Listener
from kraftlog.effects import LogLine
from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter, VoterHistory, VoterSet
from kraftlog.node.broker.controller_channel import ControllerChannel
from kraftlog.node.channels import CONTROLLER_CHANNEL
from kraftlog.node.quorum.batches import METADATA_LOG, control_batch, summaries
from kraftlog.node.quorum.responses import response_to_wire
from kraftlog.node.quorum.voter_updater import (
    ACCEPTED_RETRY_MS,
    LONGEST_RETRY_MS,
    VoterUpdater,
    current_record,
)
from kraftlog.raft import messages as raft
from kraftlog.raft.messages import ElectionState
from kraftlog.types import NULL_UUID, Now, uuid_text
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.add_raft_voter import AddRaftVoterResponse
from kraftlog.wire.messages.remove_raft_voter import RemoveRaftVoterResponse
from kraftlog.wire.messages.update_raft_voter import UpdateRaftVoterResponse
from kraftlog.wire.messages.vote import NodeEndpoint
from tests.node.quorum.test_driver import NOW, driver_with_voters, fetch_response
from tests.virtual_host import SETTINGS, VirtualHost

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.node.quorum.driver import QuorumDriver

ME = ReplicaKey(1)
#: After the fetch timeout of a follower without a response.
LATER = Now(60_000, 0)
MOVED = (Listener("C", "127.0.0.1", 19091),)
MOVED_ENDPOINTS = (Endpoint("C", "127.0.0.1", 19091),)


@pytest.mark.parametrize(
    ("listeners", "expected"),
    [
        ([Listener("C", "new", 2)], [Endpoint("C", "new", 2)]),
        ([Listener("C", "", 2)], [Endpoint("C", "old", 2)]),
        ([Listener("C", "0.0.0.0", 2)], [Endpoint("C", "old", 2)]),
        ([Listener("C", "new", 0)], [Endpoint("C", "old", 1)]),
        ([Listener("D", "", 2)], [Endpoint("C", "old", 1)]),
        ([Listener("D", "", 2), Listener("C", "", 3)], [Endpoint("C", "old", 3)]),
        ([], [Endpoint("C", "old", 1)]),
    ],
    ids=["all", "no host", "any host", "any port", "another name", "two listeners", "none"],
)
def test_r1_a_voters_record_follows_the_listeners(
    listeners: list[Listener], expected: list[Endpoint]
) -> None:
    voter = Voter(ME, (Endpoint("C", "old", 1),))
    assert current_record(voter, ME, listeners).endpoints == tuple(expected)


def run_step(_: str, step: Callable[..., Any], *arguments: Any) -> bool:
    """Run a step without containment: an error fails the test."""
    step(*arguments)
    return True


class UpdaterWithChannel(VoterUpdater):
    """A `VoterUpdater` and the channel of its requests."""

    def __init__(
        self, driver: QuorumDriver, emitted: list[Any], join_endpoints: tuple[Endpoint, ...]
    ) -> None:
        self.channel = ControllerChannel(driver, None, emitted.append, run_step)
        super().__init__(
            driver,
            self.channel.send,
            MOVED,
            lambda line: emitted.append(LogLine(line)),
            join_endpoints,
        )


def updater_of(
    driver: QuorumDriver, emitted: list[Any], join_endpoints: tuple[Endpoint, ...] = ()
) -> UpdaterWithChannel:
    return UpdaterWithChannel(driver, emitted, join_endpoints)


def take(emitted: list[Any], kind: type) -> list[Any]:
    taken = [it for it in emitted if isinstance(it, kind)]
    emitted.clear()
    return taken


def test_r1_a_leader_that_has_moved_writes_its_own_record() -> None:
    """The leader writes it once a record of its epoch is committed, and retries until then."""
    machine, emitted = driver_with_voters(1)
    driver = machine.driver
    assert driver is not None
    voters = driver.core.log.voter_set
    me = driver.core.me = ReplicaKey(1, b"n" * 16)
    driver.core.log.voters = VoterHistory(voters.with_directory(me))
    updater = updater_of(driver, emitted)
    driver.handle(effects.ElectionWritten(1), NOW)
    driver.append_batched(NOW)
    updater.poll(NOW)
    assert driver.core.log.voter_set.voters[0].endpoints != MOVED_ENDPOINTS
    due = updater.deadline()
    assert due is not None
    driver.handle(effects.LogFlushed(METADATA_LOG, driver.end), NOW)
    updater.poll(NOW)
    emitted.clear()
    updater.poll(Now(due, 0))
    [append] = take(emitted, effects.AppendBatch)
    [batch] = summaries(append.data)
    assert batch.voters is not None
    assert batch.voters.voters == (Voter(me, MOVED_ENDPOINTS),)
    assert updater.deadline() is None
    updater.poll(Now(due + LONGEST_RETRY_MS, 0))
    assert not take(emitted, effects.AppendBatch)


def follower() -> tuple[QuorumDriver, UpdaterWithChannel, list[Any]]:
    """A follower of node 2, from which it has received nothing yet."""
    machine, emitted = driver_with_voters(1, 2, 3, election=ElectionState(5, 2))
    driver = machine.driver
    assert driver is not None
    return driver, updater_of(driver, emitted), emitted


def receive_response(driver: QuorumDriver, emitted: list[Any]) -> None:
    [sent] = take(emitted, effects.SendRequest)
    response = fetch_response(high_watermark=0)
    driver.handle(effects.ResponseReceived("quorum", 2, sent.number, response), NOW)


def test_r1_a_moved_follower_sends_its_endpoints_to_the_leader() -> None:
    """The follower first waits for a response of the leader, as it must know the leader's log."""
    driver, updater, emitted = follower()
    updater.poll(NOW)
    assert [it.api_key for it in emitted if isinstance(it, effects.SendRequest)] == [ApiKey.FETCH]
    receive_response(driver, emitted)
    emitted.clear()
    updater.send_soon()
    updater.poll(NOW)
    [sent] = take(emitted, effects.SendRequest)
    assert (sent.channel, sent.peer, sent.api_key) == (
        CONTROLLER_CHANNEL,
        2,
        ApiKey.UPDATE_RAFT_VOTER,
    )
    request = sent.request
    assert (request.cluster_id, request.current_leader_epoch) == ("cluster", 5)
    assert (request.voter_id, request.voter_directory_id) == (1, ME.directory_id)
    assert [(it.name, it.host, it.port) for it in request.listeners] == [("C", "127.0.0.1", 19091)]
    versions = request.k_raft_version_feature
    assert (versions.min_supported_version, versions.max_supported_version) == (0, 1)


@pytest.mark.parametrize("code", [None, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE])
def test_r1_a_follower_repeats_update_voter_until_its_log_has_it(code: int | None) -> None:
    """The request is repeated after any response: an appended record may still be truncated."""
    driver, updater, emitted = follower()
    channel = updater.channel
    receive_response(driver, emitted)
    [fetch] = take(emitted, effects.SendRequest)
    now = NOW
    for _ in range(3):
        updater.poll(now)
        [sent] = take(emitted, effects.SendRequest)
        updater.poll(now)
        assert not take(emitted, effects.SendRequest), "one request at a time"
        assert updater.deadline() is None
        if code is None:
            channel.request_ended(effects.RequestFailed(CONTROLLER_CHANNEL, 2, sent.number), now)
        else:
            response = UpdateRaftVoterResponse(error_code=code)
            channel.request_ended(
                effects.ResponseReceived(CONTROLLER_CHANNEL, 2, sent.number, response), now
            )
        due = updater.deadline()
        assert due is not None
        most_ms = ACCEPTED_RETRY_MS if code == ErrorCode.NONE else LONGEST_RETRY_MS
        assert now.monotonic_ms < due <= now.monotonic_ms + most_ms
        now = Now(due, 0)
    voters = driver.core.log.voter_set.with_voter(Voter(ME, MOVED_ENDPOINTS))
    data = control_batch(raft.Batch(0, 0, 5, 0, voters), 0)
    fetch_result = fetch_response(high_watermark=0, records=data)
    driver.handle(effects.ResponseReceived("quorum", 2, fetch.number, fetch_result), now)
    emitted.clear()
    updater.poll(now)
    assert not take(emitted, effects.SendRequest)
    assert updater.deadline() is None


def test_r11_a_static_voter_gets_its_directory_recorded() -> None:
    """The record keeps its endpoints, because the listeners have no others."""
    voter = Voter(ReplicaKey(1), (Endpoint("C", "h", 1),))
    me = ReplicaKey(1, b"d" * 16)
    assert current_record(voter, me, ()) == voter.replace(key=me)


def test_r11_a_wiped_voter_logs_that_it_does_not_vote() -> None:
    """The log has another directory for its id, so the voter sends no update."""
    driver, updater, emitted = follower()
    driver.core.me = ReplicaKey(1, b"n" * 16)
    receive_response(driver, emitted)
    [fetch] = take(emitted, effects.SendRequest)
    old = Voter(ReplicaKey(1, b"o" * 16), MOVED_ENDPOINTS)
    voters = driver.core.log.voter_set.with_voter(old)
    data = control_batch(raft.Batch(0, 0, 5, 0, voters), 0)
    response = fetch_response(high_watermark=0, records=data)
    driver.handle(effects.ResponseReceived("quorum", 2, fetch.number, response), NOW)
    emitted.clear()
    updater.poll(NOW)
    assert updater.deadline() is None
    updater.poll(NOW)
    [line] = [it.line for it in emitted if isinstance(it, LogLine)]
    assert f"remove-controller -i 1 -d {uuid_text(b'o' * 16)}" in line
    assert not driver.core.is_voter


def joining_controller(
    *voter_ids: int, level: int = 1
) -> tuple[QuorumDriver, UpdaterWithChannel, list[Any]]:
    """Controller 1 with auto-join, which knows these voters from leader 2."""
    machine, emitted = driver_with_voters(2, 3, election=ElectionState(5, 2))
    driver = machine.driver
    assert driver is not None
    driver.core.me = ReplicaKey(1, b"n" * 16)
    updater = updater_of(driver, emitted, MOVED_ENDPOINTS)
    receive_voters(driver, emitted, *voter_ids, level=level)
    return driver, updater, emitted


def receive_voters(
    driver: QuorumDriver,
    emitted: list[Any],
    *voter_ids: int,
    level: int = 1,
    own_directory: bytes = b"o" * 16,
    removed: tuple[ReplicaKey, ...] = (),
) -> None:
    """Receive a voters record; the record of controller 1 has the directory `own_directory`."""
    fetch = [
        it for it in emitted if isinstance(it, effects.SendRequest) and it.api_key == ApiKey.FETCH
    ][-1]
    directory = b"o" * 16 if level else NULL_UUID
    voters = [
        Voter(ReplicaKey(i, own_directory if i == 1 else directory), MOVED_ENDPOINTS)
        for i in voter_ids
    ]
    end = driver.core.log.end
    record = VoterSet(tuple(voters), removed=removed)
    data = control_batch(raft.Batch(end, end, 5, 0, record), 0)
    emitted.clear()
    response = fetch_response(high_watermark=end, records=data)
    driver.handle(effects.ResponseReceived("quorum", 2, fetch.number, response), NOW)
    driver.handle(effects.LogFlushed(METADATA_LOG, driver.core.log.end), NOW)


def voter_change_requests(emitted: list[Any]) -> list[effects.SendRequest]:
    return [
        it for it in emitted if isinstance(it, effects.SendRequest) and it.api_key != ApiKey.FETCH
    ]


def test_r12_auto_join_sends_add_voter() -> None:
    """KIP-853's auto-join: the request is repeated until the log has the controller as a voter."""
    driver, updater, emitted = joining_controller(2, 3)
    now = NOW
    for _ in range(2):
        updater.poll(now)
        [sent] = voter_change_requests(emitted)
        assert (sent.api_key, sent.peer) == (ApiKey.ADD_RAFT_VOTER, 2)
        request = sent.request
        assert (request.voter_id, request.voter_directory_id) == (1, b"n" * 16)
        assert [(it.name, it.port) for it in request.listeners] == [("C", 19091)]
        emitted[:] = [it for it in emitted if it is not sent]
        late = AddRaftVoterResponse(error_code=ErrorCode.REQUEST_TIMED_OUT)
        updater.channel.request_ended(
            effects.ResponseReceived(CONTROLLER_CHANNEL, 2, sent.number, late), now
        )
        due = updater.deadline()
        assert due is not None
        now = Now(due, 0)
    assert driver.core.role.name == "observer"


def test_r12_the_voter_with_the_lost_directory_is_removed_first() -> None:
    """AddRaftVoter follows once the log lacks that voter, whatever the response is."""
    driver, updater, emitted = joining_controller(1, 2, 3)
    updater.poll(NOW)
    [remove] = voter_change_requests(emitted)
    assert remove.api_key == ApiKey.REMOVE_RAFT_VOTER
    assert (remove.request.voter_id, remove.request.voter_directory_id) == (1, b"o" * 16)
    receive_voters(driver, emitted, 2, 3)
    done = RemoveRaftVoterResponse(error_code=0)
    updater.channel.request_ended(
        effects.ResponseReceived(CONTROLLER_CHANNEL, 2, remove.number, done), NOW
    )
    updater.poll(NOW)
    assert [it.api_key for it in voter_change_requests(emitted)] == [ApiKey.ADD_RAFT_VOTER]


@pytest.mark.parametrize("is_listed", [True, False])
def test_r12_a_removed_voter_does_not_join_by_itself(is_listed: bool) -> None:
    """Either the latest voters record lists it as removed, or an earlier record had it as a voter.

    An operator can still add it.
    """
    driver, updater, emitted = joining_controller(2, 3)
    me = driver.core.me
    receive_voters(driver, emitted, 1, 2, 3, own_directory=me.directory_id)
    for _ in range(2):
        receive_voters(driver, emitted, 2, 3, removed=(me,) if is_listed else ())
        updater.poll(NOW)
        assert (voter_change_requests(emitted), updater.deadline()) == ([], None)
        [line] = [it.line for it in emitted if isinstance(it, LogLine)]
        assert "kraftlog quorum add-controller" in line
        receive_voters(driver, emitted, 1, 2, 3, own_directory=me.directory_id)
        updater.poll(NOW)


def test_r12_a_removed_voter_whose_id_another_voter_has_logs_one_line() -> None:
    driver, updater, emitted = joining_controller(2, 3)
    receive_voters(driver, emitted, 1, 2, 3, removed=(driver.core.me,))
    updater.poll(NOW)
    [line] = [it.line for it in emitted if isinstance(it, LogLine)]
    assert "run kraftlog quorum remove-controller -i 1 -d" in line
    assert voter_change_requests(emitted) == []


def test_r12_a_removed_voter_with_an_emptied_disk_joins_again() -> None:
    driver, updater, emitted = joining_controller(2, 3)
    receive_voters(driver, emitted, 2, 3, removed=(ReplicaKey(1, b"o" * 16),))
    updater.poll(NOW)
    [sent] = voter_change_requests(emitted)
    assert (sent.api_key, sent.request.is_auto_join) == (ApiKey.ADD_RAFT_VOTER, True)


def test_r12_no_auto_join_at_kraft_version_0_or_without_the_setting() -> None:
    _, updater, emitted = joining_controller(2, 3, level=0)
    updater.poll(NOW)
    assert voter_change_requests(emitted) == []
    driver, _, emitted = joining_controller(2, 3)
    disabled = updater_of(driver, emitted)
    disabled.poll(NOW)
    assert (voter_change_requests(emitted), disabled.deadline()) == ([], None)


def test_r7_a_removed_voter_sends_no_update() -> None:
    machine, emitted = driver_with_voters(2, 3, election=ElectionState(5, 2))
    assert machine.driver is not None
    updater = updater_of(machine.driver, emitted)
    updater.poll(NOW)
    assert updater.deadline() is None


def test_r9_an_address_from_another_voter_is_used_while_reachable() -> None:
    """The address may be newer than the voters record, or wrong: a failure drops it."""
    driver, emitted = follower_with_address_from_node_3()
    [sent] = take(emitted, effects.SendRequest)
    assert driver.address_of(2) == (sent.host, sent.port) == ("10.0.0.9", 9)
    driver.handle(effects.RequestFailed("quorum", 2, sent.number), LATER)
    assert driver.address_of(2) == ("127.0.0.1", 9092)


def test_r9_a_leaders_own_address_does_not_replace_a_reachable_one() -> None:
    """The leader may know only its outdated record."""
    driver, emitted = follower_with_address_from_node_3()
    [sent] = take(emitted, effects.SendRequest)
    name_leader_address(driver, sent, "127.0.0.1", 9092)
    assert driver.address_of(2) == ("10.0.0.9", 9)


def follower_with_address_from_node_3() -> tuple[QuorumDriver, list[Any]]:
    """A follower that does not reach leader 2 until node 3 names its address in a vote response."""
    driver, _, emitted = follower()
    [fetch] = take(emitted, effects.SendRequest)
    driver.handle(effects.RequestFailed("quorum", 2, fetch.number), NOW)
    driver.poll(LATER)
    sent_to = {it.peer: it for it in take(emitted, effects.SendRequest)}
    driver.handle(effects.RequestFailed("quorum", 2, sent_to[2].number), LATER)
    name_leader_address(driver, sent_to[3], "10.0.0.9", 9)
    driver.poll(Now(LATER.monotonic_ms + 500, 0))  # the node retries
    return driver, emitted


def name_leader_address(
    driver: QuorumDriver, sent: effects.SendRequest, host: str, port: int
) -> None:
    response: Any = response_to_wire(raft.VoteResult(0, 2, 5, granted=False))
    response.node_endpoints = [NodeEndpoint(node_id=2, host=host, port=port)]
    driver.handle(effects.ResponseReceived("quorum", sent.peer, sent.number, response), LATER)


def test_r9_a_moved_leader_reports_its_own_endpoint() -> None:
    """It reports the endpoint even before its record is updated."""
    machine, emitted = driver_with_voters(1, advertised_endpoints=MOVED_ENDPOINTS)
    driver = machine.driver
    assert driver is not None
    for version in (1, 2):  # its vote for itself, and that it leads
        driver.handle(effects.ElectionWritten(version), NOW)
    vote = raft.Vote("cluster", ReplicaKey(1), driver.epoch, ReplicaKey(3), 0, 0, pre_vote=True)
    driver.handle_request(PeerResponse(1), vote, None, NOW)
    [reply] = take(emitted, effects.SendResponse)
    endpoints = [(it.node_id, it.host, it.port) for it in reply.response.node_endpoints]
    assert endpoints == [(1, "127.0.0.1", 19091)]


def test_r9_static_voters_take_precedence_over_the_log() -> None:
    """An operator changes them to move a voter; the log still has the old address."""
    machine, emitted = driver_with_voters(
        1, 2, 3, election=ElectionState(5, 2), static_addresses={2: ("10.0.0.2", 2)}
    )
    [sent] = take(emitted, effects.SendRequest)
    assert (sent.host, sent.port) == ("10.0.0.2", 2)
    assert machine.driver is not None
    assert machine.driver.address_of(3) == ("127.0.0.1", 9093)


def test_r9_describe_quorum_returns_static_addresses() -> None:
    """A client that looks for the leader must reach it."""
    before = VirtualHost()
    before.files.kill()
    host = VirtualHost(before.files, SETTINGS.replace(":9093", ":19093"), settled=False)
    [voter] = host.node.quorum.core.log.voter_set.voters
    assert [it.port for it in voter.endpoints] == [9093]
    assert [it.port for it in host.node.endpoints_of(voter)] == [19093]
    host.settle()
    [voter] = host.node.quorum.core.log.voter_set.voters
    assert [it.port for it in voter.endpoints] == [19093], "a leader updates its own record"


def test_r9_a_vote_response_names_the_leaders_address() -> None:
    """A moved voter that does not reach the leader requests votes, and so learns the address."""
    driver, _, emitted = follower()
    receive_response(driver, emitted)
    vote = raft.Vote("cluster", ME, 5, ReplicaKey(3), 0, 0, pre_vote=True)
    for version in (0, 1):
        pending = PeerResponse(version)
        driver.handle_request(pending, vote, None, NOW)
        [reply] = take(emitted, effects.SendResponse)
        endpoints = [(it.node_id, it.host, it.port) for it in reply.response.node_endpoints]
        assert endpoints == ([(2, "127.0.0.1", 9092)] if version else [])
        refused: Any = response_to_wire(raft.VoteResult(0, 2, 5, granted=False))
        assert reply.response.topics == refused.topics


class PeerResponse:
    """A pending response, which the driver must not complete by itself."""

    def __init__(self, version: int) -> None:
        self.version = version

    def respond(self, response: Any) -> None:
        raise AssertionError(f"unexpected response {response!r}")
