"""QuorumDriver: the order in which it carries out the core's effects, and their outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog import effects
from kraftlog.errors import ErrorCode
from kraftlog.logstate.epochs import EpochCache
from kraftlog.logstate.voters import (
    Endpoint,
    ReplicaKey,
    Voter,
    VoterHistory,
    VoterSet,
    endpoint_of,
)
from kraftlog.node.channels import CONTROLLER_CHANNEL as CHANNEL
from kraftlog.node.handlers.forwarding import RETRY_MS
from kraftlog.node.pending_response import PendingResponse
from kraftlog.node.quorum.batches import METADATA_LOG, records_batch
from kraftlog.node.quorum.driver import QuorumDriver
from kraftlog.node.quorum.proposal import BATCH_BYTES
from kraftlog.node.quorum.requests import request_to_wire
from kraftlog.node.quorum.responses import response_to_wire
from kraftlog.node.quorum.snapshots import snapshot_pieces
from kraftlog.node.slices import Slices
from kraftlog.raft import changes
from kraftlog.raft import messages as raft
from kraftlog.raft.config import RaftConfig
from kraftlog.raft.core import RaftCore
from kraftlog.raft.log import RaftLog
from kraftlog.raft.messages import ElectionState
from kraftlog.records.header import read_header, stamp
from kraftlog.types import METADATA_TOPIC_ID, Now, OffsetAndEpoch
from kraftlog.wire.apis import CONTROLLER, ApiKey
from kraftlog.wire.codec import decode, encode
from kraftlog.wire.messages import describe_quorum as api
from kraftlog.wire.messages.begin_quorum_epoch import LeaderEndpoint
from kraftlog.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kraftlog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from kraftlog.wire.messages.metadata_records import NoOpRecord, TopicRecord
from kraftlog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from kraftlog.wire.record_frames import encode_metadata
from tests.node.frame_client import FrameClient, ask_settled
from tests.node.proposals import proposal_of
from tests.virtual_host import CLUSTER_ID, VirtualHost

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kraftlog.wire.schema import Message

NOW = Now(0, 0)


class Machine:
    """A state machine that makes a proposal once this node leads."""

    def __init__(self) -> None:
        self.driver: QuorumDriver | None = None
        self.proposals = 0
        self.calls: list[tuple[str, int, int]] = []

    def replay_in_steps(self, records: Iterable[Any], last_offset: int) -> Iterator[int]:
        for _ in records:
            yield 1
        self.calls.append(("replay", len(list(records)), last_offset))

    def reload(self, records: Iterable[Any], last_offset: int) -> None:
        self.calls.append(("reload", len(list(records)), last_offset))

    def became_leader(self, epoch: int, now: Now) -> None: ...

    def leader_changed(self, leader_id: int, epoch: int) -> None:  # noqa: ARG002 - see StateMachine
        if self.driver is not None and leader_id == 1:
            self.proposals += 1
            assert self.driver.propose(proposal_of([NoOpRecord()]), lambda _, __: None, NOW) == 0


def driver_with_voters(
    *voter_ids: int,
    election: ElectionState | None = None,
    advertised_endpoints: tuple[Endpoint, ...] = (),
    static_addresses: dict[int, tuple[str, int]] | None = None,
    records: int = 0,
) -> tuple[Machine, list[Any]]:
    """A driver of replica 1 of these voters, with `records` records of epoch 1, and its effects."""
    voter_set = VoterSet(
        tuple(Voter(ReplicaKey(i), (Endpoint("C", "127.0.0.1", 9090 + i),)) for i in voter_ids)
    )
    epochs = EpochCache(((1, 0),) if records else ())
    log = RaftLog(VoterHistory(voter_set, ()), 0, records, epochs, 0)
    start = election or ElectionState()
    core = RaftCore(ReplicaKey(1), log, start, RaftConfig(seed=1), NOW, "cluster")
    machine = Machine()
    emitted: list[Any] = []
    machine.driver = QuorumDriver(
        core,
        machine,
        emitted.append,
        Slices(),
        static_addresses=static_addresses or {},
        advertised_endpoints=advertised_endpoints,
    )
    machine.driver.start(NOW)
    return machine, emitted


def test_proposals_made_while_effects_run_follow_those_effects() -> None:
    """First the leader's own record, then a proposal made in a callback."""
    machine, emitted = driver_with_voters(1)
    assert machine.driver is not None
    machine.driver.handle(effects.ElectionWritten(1), NOW)
    machine.driver.append_batched(NOW)
    batches = [it.data for it in emitted if isinstance(it, effects.AppendBatch)]
    assert machine.proposals == 1
    assert [read_header(batch).base_offset for batch in batches] == [0, 2]
    assert read_header(batches[0]).is_control


def test_proposals_of_a_turn_become_one_batch() -> None:
    """Each has its callback; a proposal too large for the batch follows it."""
    machine, emitted = driver_with_voters(1)
    driver = machine.driver
    assert driver is not None
    driver.handle(effects.ElectionWritten(1), NOW)
    driver.append_batched(NOW)
    emitted.clear()
    start, codes = driver.end, list[int]()
    large = [TopicRecord(name="x" * (BATCH_BYTES // 3), topic_id=b"x" * 16)] * 3
    for records in ([NoOpRecord()], [NoOpRecord()], large):
        assert driver.propose(proposal_of(records), lambda code, _: codes.append(code), NOW) == 0
    assert driver.end == start + 5
    batches = [read_header(it.data) for it in emitted if isinstance(it, effects.AppendBatch)]
    assert [(it.base_offset, it.record_count) for it in batches] == [(start, 2), (start + 2, 3)]
    driver.handle(effects.LogFlushed(METADATA_LOG, driver.end), NOW)
    assert codes == [0, 0, 0]


def test_r5_a_leader_that_resigns_as_it_commits_replays_batch_by_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its controller, which has applied them all, skips each by its last offset."""
    machine, _ = driver_with_voters(1)
    driver = machine.driver
    assert driver is not None
    driver.handle(effects.ElectionWritten(1), NOW)
    driver.append_batched(NOW)
    driver.handle(effects.LogFlushed(METADATA_LOG, driver.end), NOW)
    machine.calls.clear()
    start = driver.end
    for _ in range(2):
        assert driver.propose(proposal_of([NoOpRecord()]), lambda _, __: None, NOW) == 0
        driver.append_batched(NOW)
    monkeypatch.setattr(changes, "resign_if_removed", lambda core, leader: leader.resign(core))
    driver.handle(effects.LogFlushed(METADATA_LOG, driver.end), NOW)
    assert not driver.is_leader
    assert machine.calls == [("replay", 1, start), ("replay", 1, start + 1)]


def test_a_node_that_does_not_lead_refuses_proposals() -> None:
    machine, _ = driver_with_voters(1, 2, election=ElectionState(5, 2))
    assert machine.driver is not None
    refusal = machine.driver.propose(proposal_of([NoOpRecord()]), lambda _, __: None, NOW)
    assert refusal == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not machine.driver.proposal_batch


@pytest.mark.parametrize(("voters", "is_flushed"), [((1, 2), True), ((2, 3), False)])
def test_q6_an_observers_fetch_does_not_wait_for_its_disk(
    voters: tuple[int, ...], is_flushed: bool
) -> None:
    """A voter's next fetch acknowledges the records, so it waits; an observer's does not."""
    machine, emitted = driver_with_voters(*voters, election=ElectionState(5, 2))
    (fetch,) = [it for it in emitted if isinstance(it, effects.SendRequest)]
    emitted.clear()
    batch = records_batch([encode_metadata(NoOpRecord(), 0)], 0)
    stamp(batch, 0, 0, 5)
    response = fetch_response(high_watermark=0, records=bytes(batch))
    assert machine.driver is not None
    machine.driver.handle(effects.ResponseReceived("quorum", 2, fetch.number, response), NOW)
    (append,) = [it for it in emitted if isinstance(it, effects.AppendBatch)]
    assert append.flush == is_flushed
    assert any(isinstance(it, effects.SendRequest) for it in emitted) != is_flushed


@pytest.mark.parametrize("committed", [0, 10])
def test_q9a_a_replaying_node_does_not_campaign(committed: int) -> None:
    """It does grant votes, as it knows that its leader is down."""
    machine, emitted = driver_with_voters(1, 2, 3, election=ElectionState(5, 2), records=10)
    driver = machine.driver
    assert driver is not None
    (fetch,) = [it for it in emitted if isinstance(it, effects.SendRequest)]
    response = fetch_response(high_watermark=committed)
    driver.handle(effects.ResponseReceived("quorum", 2, fetch.number, response), NOW)
    assert any(isinstance(it, effects.ReadLog) for it in emitted) == bool(committed)
    driver.handle(effects.ConnectionRefused("quorum", 2, 0), NOW)
    assert driver.core.role.name == ("follower" if committed else "prospective")
    assert not driver.core.role.has_live_leader(driver.core)


def fetch_response(*, high_watermark: int, records: bytes = b"") -> FetchResponse:
    """The response of node 2, which leads epoch 5."""
    part = PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=high_watermark,
        current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=5),
        aborted_transactions=None,
        records=records,
    )
    topic = FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[part])
    return FetchResponse(error_code=0, session_id=0, responses=[topic])


def test_a_shutdown_does_not_wait_for_a_fetch_response() -> None:
    machine, emitted = driver_with_voters(1, 2, election=ElectionState(5, 2))
    (fetch,) = [it for it in emitted if isinstance(it, effects.SendRequest)]
    assert fetch.api_key == ApiKey.FETCH
    assert machine.driver is not None
    machine.driver.shut_down(NOW)
    assert not machine.driver.is_resigning


def test_a_response_without_a_partition_counts_as_no_response() -> None:
    """Then the core sends the request again: every request has an outcome."""
    machine, emitted = driver_with_voters(1, 2, election=ElectionState(5, 2))
    (fetch,) = [it for it in emitted if isinstance(it, effects.SendRequest)]
    assert machine.driver is not None
    assert machine.driver.core.peer(2).in_flight == fetch.number
    empty = FetchResponse(error_code=0, session_id=0, responses=())
    machine.driver.handle(effects.ResponseReceived("quorum", 2, fetch.number, empty), NOW)
    assert machine.driver.core.peer(2).in_flight != fetch.number


def test_d1_a_waiting_describe_is_answered_by_the_node_that_becomes_leader() -> None:
    host = VirtualHost(settled=False)
    client = FrameClient(host)
    part = api.PartitionData(partition_index=0)
    topic = api.TopicData(topic_name="__cluster_metadata", partitions=[part])
    client.send(ApiKey.DESCRIBE_QUORUM, 2, api.DescribeQuorumRequest(topics=[topic]))
    assert not client.take()
    host.settle()
    host.pass_time(50)
    ((_, response),) = client.take()
    assert response.topics[0].partitions[0].leader_id == 1


def test_waiting_requests_are_handled_once_there_is_a_leader() -> None:
    """They do not wait for the next retry. On a controller listener no request waits."""
    host = VirtualHost(settled=False)
    waiting, refused = FrameClient(host), FrameClient(host, CONTROLLER)
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name="t", num_partitions=1, replication_factor=1, assignments=(), configs=()
            )
        ]
    )
    waiting.send(ApiKey.CREATE_TOPICS, 7, request)
    assert not waiting.take()
    response = refused.ask(ApiKey.CREATE_TOPICS, 7, request)
    assert [topic.error_code for topic in response.topics] == [ErrorCode.NOT_CONTROLLER]
    host.settle()
    ((_, response),) = waiting.take()
    assert [topic.name for topic in response.topics] == ["t"]


def test_pending_appends_are_work_for_the_host() -> None:
    """A group coordinator may write at the end of a turn, after all reads."""
    host = VirtualHost()
    assert not host.node.has_work
    host.node.replica_manager.turn.append(object())  # type: ignore[arg-type]  # its content is not read
    assert host.node.has_work


def test_r12_a_waiting_voter_change_is_made_by_the_new_leader() -> None:
    host = VirtualHost(settled=False)
    client = FrameClient(host)
    remove = RemoveRaftVoterRequest(cluster_id=None, voter_id=7, voter_directory_id=b"x" * 16)
    client.send(ApiKey.REMOVE_RAFT_VOTER, 0, remove)
    assert not client.take()
    host.settle()
    host.pass_time(50)
    ((_, response),) = client.take()
    assert response.error_code == ErrorCode.VOTER_NOT_FOUND


@pytest.mark.parametrize("version", [0, 1, 2])
def test_d2_every_version_describes_replicas_with_a_directory(version: int) -> None:
    """D2: versions 0 and 1 omit the directory id."""
    state = api.ReplicaState(replica_id=4, replica_directory_id=b"d" * 16, log_end_offset=7)
    part = api.PartitionResult(
        partition_index=0,
        error_code=0,
        leader_id=1,
        leader_epoch=2,
        high_watermark=7,
        current_voters=(),
        observers=[state],
    )
    topic = api.TopicResult(topic_name="__cluster_metadata", partitions=[part])
    response = api.DescribeQuorumResponse(error_code=0, topics=[topic])
    decoded = decode(api.DescribeQuorumResponse, version, encode(response, version))
    (observer,) = decoded.topics[0].partitions[0].observers
    assert observer.log_end_offset == 7
    assert (observer.replica_directory_id == b"d" * 16) == (version >= 2)


def take_only(emitted: list[Any], kind: type) -> Any:
    """Return the only effect of a kind, and clear all effects."""
    [only] = [it for it in emitted if isinstance(it, kind)]
    emitted.clear()
    return only


def test_a_state_machine_before_the_log_start_loads_the_snapshot() -> None:
    """C105: the records after the snapshot are replayed only then."""
    machine, emitted = driver_with_voters(1, 2, election=ElectionState(5, 2))
    driver, point = machine.driver, OffsetAndEpoch(7, 4)
    assert driver is not None
    pieces = snapshot_pieces([NoOpRecord()] * 3, VoterSet(), point.epoch, 0)
    data = b"".join(pieces)
    fetch = take_only(emitted, effects.SendRequest)
    at_snapshot = raft.FetchResult(0, 2, 5, 9, snapshot=point, offset=0)
    driver.handle(
        effects.ResponseReceived("quorum", 2, fetch.number, response_to_wire(at_snapshot)), NOW
    )
    fetch = take_only(emitted, effects.SendRequest)
    assert fetch.api_key == ApiKey.FETCH_SNAPSHOT
    chunk = raft.SnapshotChunk(0, 2, 5, point, 0, size=len(data), length=len(data), data=data)
    driver.handle(
        effects.ResponseReceived("quorum", 2, fetch.number, response_to_wire(chunk, data)), NOW
    )
    assert take_only(emitted, effects.LoadSnapshot).id == point
    assert machine.calls == []
    driver.handle(effects.SnapshotLoaded(point, data), NOW)
    assert (machine.calls, driver.applied) == ([("reload", 3, 6)], 7)
    fetch = take_only(emitted, effects.SendRequest)
    assert (fetch.api_key, driver.core.log.end) == (ApiKey.FETCH, 7)
    batch = records_batch([encode_metadata(NoOpRecord(), 0)] * 2, 0)
    stamp(batch, 0, 7, 5)
    with_records = response_to_wire(raft.FetchResult(0, 2, 5, 9, offset=7), bytes(batch))
    driver.handle(effects.ResponseReceived("quorum", 2, fetch.number, with_records), NOW)
    driver.handle(effects.LogFlushed(METADATA_LOG, 9), NOW)
    assert machine.calls == [("reload", 3, 6), ("replay", 2, 8)]


def test_q38_a_damaged_snapshot_is_fetched_again_from_its_beginning() -> None:
    """The log and the state machine are unchanged."""
    machine, emitted = driver_with_voters(1, 2, election=ElectionState(5, 2))
    driver, point = machine.driver, OffsetAndEpoch(7, 4)
    assert driver is not None
    now = NOW
    for _ in range(2):
        fetch = take_only(emitted, effects.SendRequest)
        assert (fetch.api_key, driver.core.log.end) == (ApiKey.FETCH, 0)
        at_snapshot = raft.FetchResult(0, 2, 5, 9, snapshot=point, offset=0)
        driver.handle(
            effects.ResponseReceived("quorum", 2, fetch.number, response_to_wire(at_snapshot)), now
        )
        fetch = take_only(emitted, effects.SendRequest)
        assert fetch.request.topics[0].partitions[0].position == 0
        chunk = raft.SnapshotChunk(0, 2, 5, point, 0, size=3, length=3, data=b"bad")
        response = response_to_wire(chunk, b"bad")
        driver.handle(effects.ResponseReceived("quorum", 2, fetch.number, response), now)
        assert take_only(emitted, effects.LoadSnapshot).id == point
        driver.handle(effects.SnapshotCorrupt(point), now)
        assert (machine.calls, driver.applied, driver.core.log.snapshot) == ([], 0, None)
        now = Now(now.monotonic_ms + driver.core.config.retry_backoff_max_ms, 0)
        assert not emitted
        driver.poll(now)


class SilentPeers:
    """Peers that record requests and never respond."""

    def __init__(self) -> None:
        self.requests: list[effects.SendRequest] = []

    def send(self, effect: effects.SendRequest, /) -> None:
        self.requests.append(effect)


def begin_epoch(host: VirtualHost, epoch: int, port: int) -> None:
    """Node 2 sends BeginQuorumEpoch, with its endpoint unless `port` is 0."""
    me = host.node.quorum.core.me
    endpoints = [LeaderEndpoint(name="CONTROLLER", host="10.0.0.9", port=port)] if port else []
    api_key, request = request_to_wire(raft.BeginEpoch(CLUSTER_ID, me, 2, epoch), endpoints)
    FrameClient(host, CONTROLLER).ask(api_key, 1, request)


def test_a_leader_is_contacted_at_its_reported_endpoint() -> None:
    """C70: the endpoint is used while node 2 leads; a delayed request changes nothing."""
    peers = SilentPeers()
    host = VirtualHost(settled=False, peers=peers)
    begin_epoch(host, 5, 19093)
    assert {(it.peer, it.host, it.port) for it in peers.requests} == {(2, "10.0.0.9", 19093)}
    driver = host.node.quorum
    begin_epoch(host, 5, 19094)
    assert driver.address_of(2) == ("10.0.0.9", 19094)
    begin_epoch(host, 4, 19095)
    assert driver.address_of(2) == ("10.0.0.9", 19094)
    begin_epoch(host, 6, 0)
    assert (driver.leader_id, driver.epoch) == (2, 6)
    assert driver.address_of(2) is None


@pytest.mark.parametrize(
    ("names", "port"),
    [(["OUTSIDE", "CONTROLLER"], 2), (["OUTSIDE", "controller"], 2), (["OUTSIDE", "OTHER"], 1)],
)
def test_the_leaders_endpoint_of_this_nodes_listener_is_used(names: list[str], port: int) -> None:
    """C70: in the leader's request or the voters record; another listener is better than none."""
    host = VirtualHost(settled=False, peers=SilentPeers())
    driver = host.node.quorum
    endpoints = [
        LeaderEndpoint(name=name, host="h", port=number) for number, name in enumerate(names, 1)
    ]
    api_key, request = request_to_wire(raft.BeginEpoch(CLUSTER_ID, driver.core.me, 2, 5), endpoints)
    FrameClient(host, CONTROLLER).ask(api_key, 1, request)
    assert driver.address_of(2) == ("h", port)
    voter = Voter(ReplicaKey(3), tuple(Endpoint(it.name, it.host, it.port) for it in endpoints))
    assert endpoint_of(voter.endpoints, driver.listener) == Endpoint(names[port - 1], "h", port)
    assert endpoint_of((), driver.listener) is None


@pytest.mark.parametrize("epoch", [5, 6])
@pytest.mark.parametrize(
    "follows_leader", [True, False], ids=["after the leader", "before the leader"]
)
def test_endpoints_of_another_clusters_leader_are_ignored(epoch: int, follows_leader: bool) -> None:
    """C70: a cloned machine has the same ids; its request is refused, its endpoint not used."""
    machine, _ = driver_with_voters(1, 2, election=ElectionState(5, 2))
    driver, pending, me = machine.driver, PendingResponse(None), ReplicaKey(1)
    assert driver is not None
    if follows_leader:
        begin = raft.BeginEpoch("cluster", me, 2, 5)
        driver.begin_epoch_received(pending, begin, ("10.0.0.9", 1), NOW)
    before = driver.address_of(2)
    assert before == (("10.0.0.9", 1) if follows_leader else ("127.0.0.1", 9092))
    begin = raft.BeginEpoch("another", me, 2, epoch)
    driver.begin_epoch_received(pending, begin, ("10.0.0.8", 1), NOW)
    assert driver.address_of(2) == before


def test_peers_do_not_replace_a_leaders_working_address() -> None:
    """C70: a peer's address of the leader may be outdated."""
    host = VirtualHost()
    driver = host.node.quorum
    before = driver.address_of(1)
    begin = raft.BeginEpoch(CLUSTER_ID, driver.core.me, 1, driver.epoch)
    driver.begin_epoch_received(PendingResponse(None), begin, ("10.0.0.8", 1), host.now)
    assert driver.is_leader
    assert driver.address_of(1) == before


#: When an election is due.
LATER = Now(60_000, 0)


def newest_vote_request(emitted: list[Any]) -> effects.SendRequest:
    """The newest request, which must be a Vote."""
    newest: effects.SendRequest = [it for it in emitted if isinstance(it, effects.SendRequest)][-1]
    assert newest.api_key == ApiKey.VOTE
    return newest


def test_a_leader_sends_its_endpoints() -> None:
    """C70: BeginQuorumEpoch has them."""
    machine, emitted = driver_with_voters(
        1, 2, advertised_endpoints=(Endpoint("C", "10.0.0.1", 1),)
    )
    driver = machine.driver
    assert driver is not None
    driver.poll(LATER)
    for _ in ("pre-vote", "vote"):
        request = newest_vote_request(emitted)
        granted = response_to_wire(raft.VoteResult(0, -1, driver.epoch, granted=True))
        driver.handle(effects.ResponseReceived("quorum", 2, request.number, granted), LATER)
        driver.handle(effects.ElectionWritten(driver.core.election_version), LATER)
    [begin] = [
        it
        for it in emitted
        if isinstance(it, effects.SendRequest) and it.api_key == ApiKey.BEGIN_QUORUM_EPOCH
    ]
    assert [(it.host, it.port) for it in begin.request.leader_endpoints] == [("10.0.0.1", 1)]


def test_a_peer_without_pre_vote_gets_a_vote_request() -> None:
    """C29, C120: its version of Vote has no pre-vote field."""
    machine, emitted = driver_with_voters(1, 2)
    driver = machine.driver
    assert driver is not None
    driver.poll(LATER)
    request = newest_vote_request(emitted)
    assert request.request.topics[0].partitions[0].pre_vote
    driver.handle(effects.VersionUnsupported("quorum", 2, request.number), LATER)
    driver.handle(effects.ElectionWritten(driver.core.election_version), LATER)
    assert not newest_vote_request(emitted).request.topics[0].partitions[0].pre_vote


def test_an_unsupported_request_other_than_vote_counts_as_unanswered() -> None:
    """C120: the core sends the request again."""
    machine, emitted = driver_with_voters(1, 2, election=ElectionState(5, 2))
    fetch = take_only(emitted, effects.SendRequest)
    assert machine.driver is not None
    machine.driver.handle(effects.VersionUnsupported("quorum", 2, fetch.number), NOW)
    assert machine.driver.core.peer(2).in_flight != fetch.number


def host_with_forwarded(
    api_key: int, version: int, request: Message
) -> tuple[VirtualHost, FrameClient, SilentPeers]:
    """A node that has forwarded a client's request to the leader, node 2, which is silent."""
    peers = SilentPeers()
    host = VirtualHost(settled=False, peers=peers)
    begin_epoch(host, 5, 19093)
    peers.requests.clear()
    client = FrameClient(host)
    assert client.ask(api_key, version, request) is None
    return host, client, peers


def take_forwarded(peers: SilentPeers) -> int:
    """Return the number of the forwarded request, and drop the request."""
    [number] = [it.number for it in peers.requests if it.channel == CHANNEL]
    peers.requests.clear()
    return number


def create(*names: str) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        for name in names
    ]
    return CreateTopicsRequest(topics=topics)


def test_requests_unsupported_by_the_leader_are_refused_at_once() -> None:
    """C120: otherwise the node would repeat the request until the client's timeout."""
    host, client, peers = host_with_forwarded(ApiKey.CREATE_TOPICS, 7, create("t"))
    host.node.handle(effects.VersionUnsupported(CHANNEL, 2, take_forwarded(peers)), host.now)
    host.turn()
    ((_, response),) = client.take()
    assert [(it.name, it.error_code) for it in response.topics] == [
        ("t", ErrorCode.UNSUPPORTED_VERSION)
    ]
    assert not [it for it in peers.requests if it.channel == CHANNEL]


def test_a_change_that_is_too_large_for_the_log_is_refused_at_once() -> None:
    """The error is RECORD_LIST_TOO_LARGE, which clients do not retry."""
    host = VirtualHost()
    core, end = host.node.quorum.core, host.node.quorum.end
    core.config = core.config.replace(max_batch_bytes=BATCH_BYTES)
    response = ask_settled(
        host, ApiKey.CREATE_TOPICS, 7, create(*[f"t{i:04}" for i in range(1000)])
    )
    assert {topic.error_code for topic in response.topics} == {ErrorCode.RECORD_LIST_TOO_LARGE}
    assert (len(response.topics), host.node.quorum.end) == (1000, end)
    response = FrameClient(host).ask(ApiKey.CREATE_TOPICS, 7, create("t0000"))
    assert [topic.error_code for topic in response.topics] == [ErrorCode.NONE]


@pytest.mark.parametrize("outcome", ["answered", "timed out", "disconnected"])
def test_completed_waits_for_a_leader_are_dropped(outcome: str) -> None:
    """Otherwise callbacks would pile up while the leader stays."""
    request = CreateTopicsRequest(topics=(), timeout_ms=2 * RETRY_MS)
    host, client, peers = host_with_forwarded(ApiKey.CREATE_TOPICS, 7, request)
    host.node.handle(effects.RequestFailed(CHANNEL, 2, take_forwarded(peers)), host.now)
    host.turn()
    assert host.node.controller_channel._waiting_for_leader
    if outcome == "disconnected":
        pending = client.connection.responses[0]
        assert isinstance(pending, PendingResponse)
        pending.abandon()
    else:
        host.pass_time(RETRY_MS)
        number = take_forwarded(peers)
        assert not host.node.controller_channel._waiting_for_leader, (
            "the request is sent, and no longer waits for a leader"
        )
        host.node.handle(effects.RequestFailed(CHANNEL, 2, number), host.now)
        host.turn()
        host.pass_time(RETRY_MS)
        if outcome == "answered":
            response = CreateTopicsResponse(topics=())
            number = take_forwarded(peers)
            host.node.handle(effects.ResponseReceived(CHANNEL, 2, number, response), host.now)
        else:
            host.node.handle(effects.RequestFailed(CHANNEL, 2, take_forwarded(peers)), host.now)
        assert client.take()
    assert not host.node.controller_channel._waiting_for_leader


def test_q31_a_leader_of_another_cluster_is_logged_and_the_node_goes_on() -> None:
    """The node goes on because it has found its own quorum, which it leads here."""
    machine, emitted = driver_with_voters(1)
    driver = machine.driver
    assert driver is not None
    driver.handle(effects.ElectionWritten(1), NOW)
    emitted.clear()
    begin = raft.BeginEpoch("another", ReplicaKey(1), 7, 9)
    driver.begin_epoch_received(PendingResponse(None), begin, ("127.0.0.1", 1), NOW)
    lines = [it.line for it in emitted if isinstance(it, effects.LogLine)]
    assert ["node 7 of another cluster" in line for line in lines] == [True]
    assert not any(isinstance(it, effects.StopNode) for it in emitted)
