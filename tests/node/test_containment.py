"""An internal error in a request closes only its client's connection; its changes are undone."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.effects import ResponseReceived
from kraftlog.errors import ErrorCode, InternalError
from kraftlog.groups import rebalance
from kraftlog.groups.group import Group
from kraftlog.logstate.producers import ProducerState
from kraftlog.node import api_table
from kraftlog.node.api_table import SERVED
from kraftlog.node.channels import CONTROLLER_CHANNEL
from kraftlog.node.fetch.reading import Reading
from kraftlog.node.quorum.leader_watch import LeaderWatch
from kraftlog.node.quorum.voter_updater import VoterUpdater
from kraftlog.raft.core import RaftCore
from kraftlog.records.builder import BatchBuilder
from kraftlog.replication.producer_expiration import ProducerExpiration
from kraftlog.wire.apis import APIS, BROKER, CONTROLLER, ApiKey
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kraftlog.wire.messages.heartbeat import HeartbeatRequest
from kraftlog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kraftlog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kraftlog.wire.messages.vote import PartitionData, TopicData, VoteRequest
from kraftlog_simulator.virtual_connection import VirtualConnection
from tests.node.frame_client import FrameClient, ask_settled, create_topics, make_host
from tests.node.parts import part_of
from tests.node.test_requests import batch, produce
from tests.node.test_sliced import produce_to
from tests.node.test_unwritable import commit_request
from tests.virtual_host import VirtualHost
from tests.wire.samples import Sampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.types import Now

GROUPS = "__consumer_offsets"


class StubError(Exception):
    """An internal error."""


def raise_error(*_: Any, **__: Any) -> Any:
    raise StubError("of ours")


def expect_next_offset(host: VirtualHost, offset: int) -> None:
    """Write a record, which must get this offset."""
    host.settle()
    response = FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"next")))
    [result] = response.responses[0].partition_responses
    assert (result.error_code, result.base_offset) == (0, offset)


@pytest.mark.parametrize("key", SERVED, ids=[APIS[key].name for key in SERVED])
def test_a_handler_that_raises_closes_its_connection(
    key: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make_host(demo=1)
    listener = BROKER if APIS[key].listeners & BROKER else CONTROLLER
    monkeypatch.setitem(api_table._handlers, key, raise_error)
    version = SERVED[key].versions[-1]
    request = Sampler(Random(1)).message(APIS[key].request(), version)
    with pytest.raises(InternalError, match=f"serving {APIS[key].name} version {version}"):
        FrameClient(host, listener).send(key, version, request)
    monkeypatch.undo()
    expect_next_offset(host, 0)


def test_an_exception_within_a_step_of_the_quorum_ends_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a vote could be based on a partial step."""
    host = make_host(demo=1)
    monkeypatch.setattr(RaftCore, "handle", raise_error)
    part = PartitionData(
        partition_index=0, replica_epoch=9, replica_id=7, last_offset_epoch=0, last_offset=0
    )
    topics = [TopicData(topic_name="__cluster_metadata", partitions=[part])]
    with pytest.raises(StubError):
        FrameClient(host, CONTROLLER).send(
            ApiKey.VOTE, 1, VoteRequest(cluster_id=None, voter_id=1, topics=topics)
        )


def test_an_exception_in_building_a_log_line_does_not_end_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = make_host(demo=1)
    monkeypatch.setattr(LeaderWatch, "_leader_found", raise_error)
    host.node.needs_poll = True
    host.turn()
    assert any("watching the leader" in line for line in host.log_lines)
    monkeypatch.undo()
    expect_next_offset(host, 0)


class RecordingConnection(VirtualConnection):
    """Records the error that would close it."""

    failure: Any = None

    def fail(self, error: Any) -> None:
        self.failure = error


# Data --------------------------------------------------------------------------------------------


def idempotent_batch(sequence: int) -> bytes:
    builder = BatchBuilder(producer_id=5, producer_epoch=0, base_sequence=sequence)
    builder.append(0, None, b"x")
    return builder.build()


@pytest.mark.parametrize("repeats", [1, 4], ids=["ordinary", "by its template"])
def test_a_produce_that_raises_is_undone(repeats: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log end and the producer's state are what they were before the request."""
    host = make_host(demo=1)
    client = FrameClient(host)
    for number in range(repeats):
        assert client.ask(ApiKey.PRODUCE, 9, produce(idempotent_batch(number))) is not None
    partition = host.node.replica_manager.by_log["demo", 0]
    other = FrameClient(host)
    other.send(ApiKey.PRODUCE, 9, produce(batch(b"in the same turn")))
    monkeypatch.setattr(ProducerState, "apply", raise_error)
    with pytest.raises(InternalError):
        client.send(ApiKey.PRODUCE, 9, produce(idempotent_batch(repeats)))
    monkeypatch.undo()
    host.turn()
    [(_, response)] = other.take()
    result = response.responses[0].partition_responses[0]
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (partition.online, partition.end, partition.written_end) == (True, repeats, repeats)
    response = FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(idempotent_batch(repeats)))
    result = response.responses[0].partition_responses[0]
    assert (result.error_code, result.base_offset) == (0, repeats)
    expect_next_offset(host, repeats + 1)


def test_a_sliced_produce_that_raises_is_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log end is what it was before the request, even if the append is in a later turn."""
    host = make_host(demo=1)
    create_topics(host, {"compacted": 1}, {"cleanup.policy": "compact"})
    partition = host.node.replica_manager.by_log["compacted", 0]
    builder = BatchBuilder(producer_id=5, producer_epoch=0, base_sequence=0)
    for _ in range(10_000):
        builder.append(1000, b"key", None)
    client = FrameClient(host)
    client.connection = connection = RecordingConnection()
    client.send(ApiKey.PRODUCE, 9, produce_to("compacted", 0, builder.build()))
    assert (host.node.sliced.has_work, partition.end) == (True, 0)
    monkeypatch.setattr(ProducerState, "apply", raise_error)
    host.settle()
    monkeypatch.undo()
    assert isinstance(connection.failure, InternalError)
    assert (partition.online, partition.end, partition.written_end) == (True, 0, 0)
    response = ask_settled(host, ApiKey.PRODUCE, 9, produce_to("compacted", 0, builder.build()))
    result = response.responses[0].partition_responses[0]
    assert (result.error_code, result.base_offset) == (0, 0)


def waiting_fetch(host: VirtualHost) -> RecordingConnection:
    client = FrameClient(host)
    client.connection = connection = RecordingConnection()
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=100,
        min_bytes=1,
        topics=[FetchTopic(topic="demo", partitions=[part])],
        forgotten_topics_data=(),
    )
    client.send(ApiKey.FETCH, 11, request)
    host.turn()
    return connection


@pytest.mark.parametrize("event", ["time", "data"])
def test_a_delayed_request_that_raises_closes_its_connection(
    event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make_host(demo=1)
    connection = waiting_fetch(host)
    monkeypatch.setattr(Reading, "run", raise_error)
    if event == "time":
        host.pass_time(200)
    else:
        FrameClient(host).ask(ApiKey.PRODUCE, 9, produce(batch(b"x")))
    monkeypatch.undo()
    assert isinstance(connection.failure, InternalError)
    assert not host.node.replica_manager.by_log["demo", 0].fetches
    expect_next_offset(host, 0 if event == "time" else 1)


# Groups ------------------------------------------------------------------------------------------


def join(member_id: str = "", protocol: str = "range") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name=protocol, metadata=b""),),
    )


def stable_group() -> tuple[VirtualHost, str]:
    """A group with a member that has its assignment."""
    host = make_host(None, **{GROUPS: 1, "demo": 1})
    member_id = ask_settled(host, ApiKey.JOIN_GROUP, 3, join()).member_id
    assignment = SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")
    request = SyncGroupRequest(
        group_id="g", generation_id=1, member_id=member_id, assignments=[assignment]
    )
    assert ask_settled(host, ApiKey.SYNC_GROUP, 3, request).assignment == b"all"
    return host, member_id


def check_group_works(host: VirtualHost, member_id: str) -> None:
    """Check that the member keeps its state, and that a second one can join."""
    host.settle()
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    assert ask_settled(host, ApiKey.HEARTBEAT, 3, heartbeat).error_code == ErrorCode.NONE
    client = FrameClient(host)
    client.send(ApiKey.JOIN_GROUP, 3, join())
    host.settle()
    assert (
        ask_settled(host, ApiKey.HEARTBEAT, 3, heartbeat).error_code
        == ErrorCode.REBALANCE_IN_PROGRESS
    )
    response = ask_settled(host, ApiKey.JOIN_GROUP, 3, join(member_id))
    assert (response.error_code, response.generation_id) == (ErrorCode.NONE, 2)
    [(_, response)] = client.take()
    assert (response.error_code, response.generation_id) == (ErrorCode.NONE, 2)


def break_prepare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalance, "prepare", raise_error)


def break_joining(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Group, "set_joining", raise_error)


@pytest.mark.parametrize("break_group", [break_prepare, break_joining])
def test_a_group_request_that_raises_reloads_the_group(
    break_group: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    host, member_id = stable_group()
    break_group(monkeypatch)
    with pytest.raises(InternalError, match="serving JoinGroup"):
        FrameClient(host).send(ApiKey.JOIN_GROUP, 3, join())
    monkeypatch.undo()
    check_group_works(host, member_id)


def test_pending_writes_survive_a_request_that_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A commit of the same turn is in the log before the group is reloaded."""
    host, member_id = stable_group()
    client = FrameClient(host)
    client.send(ApiKey.OFFSET_COMMIT, 3, commit_request("h", "demo"))
    break_prepare(monkeypatch)
    with pytest.raises(InternalError):
        FrameClient(host).send(ApiKey.JOIN_GROUP, 3, join())
    monkeypatch.undo()
    host.settle()
    [(_, response)] = client.take()
    code = response.topics[0].partitions[0].error_code
    assert code == ErrorCode.NOT_COORDINATOR, "the client retries"
    assert host.node.group_coordinators is not None
    [shard] = host.node.group_coordinators.shards()
    stored = shard.durable.offsets.get("h", "demo", 0)
    assert stored is not None
    assert stored.offset == 7
    check_group_works(host, member_id)


def test_a_group_timer_that_raises_is_contained(monkeypatch: pytest.MonkeyPatch) -> None:
    host, _ = stable_group()
    monkeypatch.setattr(rebalance, "remove_and_rebalance", raise_error)
    host.pass_time(11_000)
    monkeypatch.undo()
    host.settle()
    assert [line for line in host.log_lines if "internal error, running group timers" in line]
    host.pass_time(11_000)
    host.settle()
    response = ask_settled(host, ApiKey.JOIN_GROUP, 3, join())
    assert response.error_code == ErrorCode.NONE


def test_a_group_write_callback_that_raises_is_contained(monkeypatch: pytest.MonkeyPatch) -> None:
    host, member_id = stable_group()
    assert host.node.group_coordinators is not None
    [shard] = host.node.group_coordinators.shards()
    monkeypatch.setattr(shard.writes, "_replay", raise_error)
    FrameClient(host).send(ApiKey.OFFSET_COMMIT, 3, commit_request("h", "demo"))
    host.settle()
    assert [line for line in host.log_lines if "handling the outcome of a group write" in line]
    assert host.node.group_coordinators is not None
    [shard] = host.node.group_coordinators.shards()
    assert shard.durable.offsets.get("h", "demo", 0) is not None
    check_group_works(host, member_id)


def test_a_periodic_decision_that_raises_is_retried_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are decided meanwhile."""
    host = make_host(demo=1)
    assert host.node.active_controller is not None
    controller = host.node.active_controller.controller
    monkeypatch.setattr(controller, "poll", raise_error)
    host.pass_time(60_000)
    host.settle()
    create_topics(host, {"more": 1})
    lines = [
        line
        for line in host.log_lines
        if "internal error, running scheduled controller work" in line
    ]
    assert lines
    monkeypatch.undo()
    host.pass_time(60_000)
    host.settle()
    expect_next_offset(host, 0)


# Periodic work of the node ------------------------------------------------------------------------


class FailingMethod:
    """Replaces a method: raises at each call, and counts the calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *_: Any, **__: Any) -> Any:
        self.calls += 1
        raise StubError("of ours")


def internal_errors(host: VirtualHost, what: str) -> list[str]:
    """The logged internal errors that occurred while doing this."""
    return [line for line in host.log_lines if f"internal error, {what}" in line]


def run_for(host: VirtualHost, ms: int) -> None:
    """Let time pass in steps of 10 ms, and run what is due after each."""
    for _ in range(ms // 10):
        host.pass_time(10)
        host.settle()


@pytest.mark.parametrize("method", ["_heartbeat_request", "_on_heartbeat"])
def test_a_heartbeat_that_raises_is_retried_later(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is logged once a minute; the heartbeat is retried a few times per second."""
    host = make_host(demo=1)
    lifecycle = host.node.broker_lifecycle
    assert lifecycle is not None
    failing = FailingMethod()
    monkeypatch.setattr(lifecycle, method, failing)
    host.pass_time(5000)
    run_for(host, 3000)
    what = "sending a registration" if method == "_heartbeat_request" else "handling a response"
    [line] = internal_errors(host, what)
    assert "Traceback" in line
    assert 3 < failing.calls < 80
    run_for(host, 61_000 - 3000)
    assert "more since it was last logged)" in internal_errors(host, what)[1]
    monkeypatch.undo()
    run_for(host, 2000)
    assert lifecycle.deadline() is not None
    assert (lifecycle.is_fenced, host.node.is_ready) == (False, True)
    expect_next_offset(host, 0)


def test_producer_expiration_that_raises_waits_for_its_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = make_host(demo=1)
    producer_expiration = part_of(host, ProducerExpiration)
    failing = FailingMethod()
    monkeypatch.setattr(producer_expiration, "_expiration_ms", failing)
    host.pass_time(producer_expiration.deadline())
    run_for(host, 100)
    assert (failing.calls, len(internal_errors(host, "expiring producer ids"))) == (1, 1)
    monkeypatch.undo()
    expect_next_offset(host, 0)


def test_a_voter_check_that_raises_is_retried_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = make_host(demo=1)
    updater = part_of(host, VoterUpdater)
    failing = FailingMethod()
    monkeypatch.setattr(updater, "_change", failing)
    updater._checked = None
    run_for(host, 5000)
    assert len(internal_errors(host, "updating the voter record of this node")) == 1
    assert 3 <= failing.calls <= 6
    monkeypatch.undo()
    run_for(host, 2000)
    assert updater.deadline() is None, "the voter record is up to date"
    expect_next_offset(host, 0)


def test_a_routine_that_interrupts_a_quorum_step_ends_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only an error of the routine itself is contained: votes could be based on a partial step."""
    host = make_host(demo=1)
    assert host.node.broker_lifecycle is not None
    driver = host.node.quorum
    monkeypatch.setattr(
        host.node.broker_lifecycle, "poll", lambda now: driver._run_step(raise_error, now)
    )
    with pytest.raises(StubError):
        host.pass_time(5000)


def test_a_response_callback_that_raises_is_called_without_a_response() -> None:
    """The second call is the same as after a failed request."""
    received: list[Any] = []

    def on_done(response: Any, _: Now) -> None:
        received.append(response)
        if response is not None:
            raise StubError("of ours")

    host = make_host(demo=1)
    ask = host.node.controller_channel.send_to
    ask(2, ("there", 9093), ApiKey.VOTE, VoteRequest(cluster_id=None, topics=()), 1000, on_done)
    [request] = host.node.take_effects()
    response = object()
    host.node.handle(ResponseReceived(CONTROLLER_CHANNEL, 2, request.number, response), host.now)
    assert received == [response, None]
    host.turn()
    assert len(internal_errors(host, "handling a response of the controller")) == 1
    expect_next_offset(host, 0)
