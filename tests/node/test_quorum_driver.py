"""What carries a core: the order in which its wishes leave, and what it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog import effects
from kraftlog.errors import ErrorCode
from kraftlog.logstate.epochs import EpochCache
from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter, VoterHistory, VoterSet
from kraftlog.node.quorum.batches import METADATA_LOG, records_batch
from kraftlog.node.quorum.driver import GATHERED_BYTES, QuorumDriver
from kraftlog.raft.config import RaftConfig
from kraftlog.raft.core import RaftCore
from kraftlog.raft.log import RaftLog
from kraftlog.raft.messages import ElectionState
from kraftlog.records.header import read_header, stamp
from kraftlog.simulator.host import VirtualHost
from kraftlog.types import METADATA_TOPIC_ID, Now
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.codec import decode, encode
from kraftlog.wire.messages import describe_quorum as api
from kraftlog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from kraftlog.wire.messages.metadata_records import NoOpRecord, TopicRecord
from kraftlog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from kraftlog.wire.record_frames import encode_metadata
from tests.node.talk import Talker

if TYPE_CHECKING:
    from collections.abc import Iterable

NOW = Now(0, 0)


class Machine:
    """Follows, and does `when_led` once it hears who leads."""

    def __init__(self) -> None:
        self.driver: QuorumDriver | None = None
        self.proposals = 0

    def replay(self, records: Iterable[Any], last_offset: int) -> None: ...

    def reload(self, records: Iterable[Any], last_offset: int) -> None: ...

    def leads(self, epoch: int, now: Now) -> None: ...

    def led_by(self, leader_id: int, epoch: int) -> None:  # noqa: ARG002 - see StateMachine
        if self.driver is not None and leader_id == 1:
            self.proposals += 1
            assert self.driver.propose([(NoOpRecord(), 0)], lambda _, __: None, NOW) == 0


def driven(*voter_ids: int, election: ElectionState | None = None) -> tuple[Machine, list[Any]]:
    """Replica 1 of these, with an empty log; gives what it has wanted since it was made."""
    those = VoterSet(
        tuple(Voter(ReplicaKey(i), (Endpoint("C", "127.0.0.1", 9090 + i),)) for i in voter_ids)
    )
    log = RaftLog(VoterHistory(those, ()), 0, 0, EpochCache(()), 0)
    start = election or ElectionState()
    core = RaftCore(ReplicaKey(1), log, start, RaftConfig(seed=1), NOW, "cluster")
    machine = Machine()
    wanted: list[Any] = []
    machine.driver = QuorumDriver(core, machine, wanted.append)
    machine.driver.start(NOW)
    return machine, wanted


def test_what_is_proposed_while_a_turn_is_carried_out_follows_what_was_wanted_before() -> None:
    """The leader's own first record, and a proposal of somebody who is told of it at once."""
    machine, wanted = driven(1)
    assert machine.driver is not None
    machine.driver.handle(effects.ElectionWritten(1), NOW)
    machine.driver.append_gathered(NOW)
    batches = [it.data for it in wanted if isinstance(it, effects.AppendBatch)]
    assert machine.proposals == 1
    assert [read_header(batch).base_offset for batch in batches] == [0, 2]
    assert read_header(batches[0]).is_control


def test_what_is_proposed_in_a_turn_is_one_batch() -> None:
    """Each proposal is told of; what is too large to be gathered goes behind what was."""
    machine, wanted = driven(1)
    driver = machine.driver
    assert driver is not None
    driver.handle(effects.ElectionWritten(1), NOW)
    driver.append_gathered(NOW)
    wanted.clear()
    start, told = driver.end, list[int]()
    large = TopicRecord(name="x" * GATHERED_BYTES, topic_id=b"x" * 16)
    for record in (NoOpRecord(), NoOpRecord(), large):
        assert driver.propose([(record, 0)], lambda code, _: told.append(code), NOW) == 0
    assert driver.end == start + 3
    batches = [read_header(it.data) for it in wanted if isinstance(it, effects.AppendBatch)]
    assert [(it.base_offset, it.record_count) for it in batches] == [(start, 2), (start + 2, 1)]
    driver.handle(effects.LogFlushed(METADATA_LOG, driver.end), NOW)
    assert told == [0, 0, 0]


def test_a_node_that_does_not_lead_refuses_what_is_proposed() -> None:
    machine, _ = driven(1, 2, election=ElectionState(5, 2))
    assert machine.driver is not None
    refusal = machine.driver.propose([(NoOpRecord(), 0)], lambda _, __: None, NOW)
    assert refusal == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not machine.driver.has_gathered


@pytest.mark.parametrize(("voters", "is_flushed"), [((1, 2), True), ((2, 3), False)])
def test_q6_what_an_observer_holds_need_not_be_on_its_disk(
    voters: tuple[int, ...], is_flushed: bool
) -> None:
    """A voter's next fetch acknowledges, and waits for the disk; an observer's does not."""
    machine, wanted = driven(*voters, election=ElectionState(5, 2))
    (ask,) = [it for it in wanted if isinstance(it, effects.Ask)]
    wanted.clear()
    batch = records_batch([encode_metadata(NoOpRecord(), 0)], 0)
    stamp(batch, 0, 0, 5)
    leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
    part = PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=0,
        current_leader=leader,
        aborted_transactions=None,
        records=bytes(batch),
    )
    topic = FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[part])
    answer = FetchResponse(error_code=0, session_id=0, responses=[topic])
    assert machine.driver is not None
    machine.driver.handle(effects.PeerAnswered("quorum", 2, ask.number, answer), NOW)
    (append,) = [it for it in wanted if isinstance(it, effects.AppendBatch)]
    assert append.flush == is_flushed
    assert any(isinstance(it, effects.Ask) for it in wanted) != is_flushed


def test_nobody_who_leaves_waits_for_the_answer_to_a_fetch() -> None:
    machine, wanted = driven(1, 2, election=ElectionState(5, 2))
    (ask,) = [it for it in wanted if isinstance(it, effects.Ask)]
    assert ask.api_key == ApiKey.FETCH
    assert machine.driver is not None
    machine.driver.shut_down(NOW)
    assert not machine.driver.is_taking_leave


def test_an_answer_about_nothing_is_as_good_as_none() -> None:
    """So that the core asks again: what is asked ends, whatever comes back."""
    machine, wanted = driven(1, 2, election=ElectionState(5, 2))
    (ask,) = [it for it in wanted if isinstance(it, effects.Ask)]
    assert machine.driver is not None
    assert machine.driver.core.peer(2).in_flight == ask.number
    empty = FetchResponse(error_code=0, session_id=0, responses=())
    machine.driver.handle(effects.PeerAnswered("quorum", 2, ask.number, empty), NOW)
    assert machine.driver.core.peer(2).in_flight != ask.number


def test_d1_a_question_that_waited_for_a_leader_is_answered_by_a_node_that_became_it() -> None:
    host = VirtualHost(settled=False)
    talker = Talker(host)
    part = api.PartitionData(partition_index=0)
    topic = api.TopicData(topic_name="__cluster_metadata", partitions=[part])
    talker.send(ApiKey.DESCRIBE_QUORUM, 2, api.DescribeQuorumRequest(topics=[topic]))
    assert not talker.take()
    host.settle()
    host.pass_time(50)
    ((_, told),) = talker.take()
    assert told.topics[0].partitions[0].leader_id == 1


def test_batches_that_nobody_has_asked_to_write_are_work_for_the_host() -> None:
    """A coordinator may write when what it had to read is read, at the end of a turn."""
    host = VirtualHost()
    assert not host.node.has_work
    host.node.turn.append(object())  # type: ignore[arg-type]  # nothing looks at it
    assert host.node.has_work


def test_r12_a_change_of_the_voters_that_waited_for_a_leader_is_made_by_a_node_that_became_it() -> (
    None
):
    host = VirtualHost(settled=False)
    talker = Talker(host)
    remove = RemoveRaftVoterRequest(cluster_id=None, voter_id=7, voter_directory_id=b"x" * 16)
    talker.send(ApiKey.REMOVE_RAFT_VOTER, 0, remove)
    assert not talker.take()
    host.settle()
    host.pass_time(50)
    ((_, told),) = talker.take()
    assert told.error_code == ErrorCode.VOTER_NOT_FOUND


@pytest.mark.parametrize("version", [0, 1, 2])
def test_d2_every_version_can_tell_of_replicas_with_a_directory(version: int) -> None:
    """Versions 0 and 1 leave it out."""
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
    told = decode(api.DescribeQuorumResponse, version, encode(response, version))
    (observer,) = told.topics[0].partitions[0].observers
    assert observer.log_end_offset == 7
    assert (observer.replica_directory_id == b"d" * 16) == (version >= 2)
