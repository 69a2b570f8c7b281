"""R7 over the wire: how a removed voter learns of its removal, and how it responds."""

from __future__ import annotations

from random import Random
from typing import Any

from kraftlog import effects
from kraftlog.errors import ErrorCode
from kraftlog.node.quorum.batches import METADATA_LOG, records_batch
from kraftlog.raft.messages import ElectionState
from kraftlog.records.header import stamp
from kraftlog.types import METADATA_TOPIC_ID
from kraftlog.wire.apis import CONTROLLER, ApiKey
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kraftlog.wire.messages.metadata_records import NoOpRecord
from kraftlog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from kraftlog.wire.record_frames import encode_metadata
from tests.node.frame_client import FrameClient
from tests.node.quorum.test_driver import NOW, driver_with_voters, fetch_response
from tests.node.test_adding_voters import ask, three_nodes_with_removed_voter
from tests.node.three_nodes import NODES, ThreeNodes
from tests.virtual_host import CLUSTER_ID, VirtualHost, directory_id_of


def fetch_as_replica(cluster: ThreeNodes, host: VirtualHost, node_id: int, epoch: int) -> Any:
    """Fetch from a node as a replica; return the partition of the response."""
    part = FetchPartition(
        partition=0, current_leader_epoch=epoch, fetch_offset=1, partition_max_bytes=1 << 20
    )
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        cluster_id=CLUSTER_ID,
        replica_state=ReplicaState(replica_id=node_id),
        topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[part])],
    )
    client = FrameClient(host, CONTROLLER, "CONTROLLER")
    client.send(ApiKey.FETCH, 17, request)
    cluster.settle(1000)
    [(_, response)] = client.take()
    [topic] = response.responses
    return topic.partitions[0]


def test_r7_a_removed_follower_becomes_an_observer_and_keeps_fetching() -> None:
    """The follower learns from the high watermark of a fetch that its removal is committed."""
    cluster, leader, removed = three_nodes_with_removed_voter()
    core, epoch = cluster.hosts[removed].node.quorum.core, leader.node.quorum.epoch
    assert core.role.name == "observer"
    cluster.settle(20_000)
    assert core.log.end == leader.node.quorum.core.log.end
    assert core.election.epoch == leader.node.quorum.epoch == epoch
    shown = leader.node.quorum.core.role.progress.replicas  # type: ignore[attr-defined]  # it leads
    assert shown[core.me].fetched_at > 0
    cluster.check()


def test_r7_the_log_of_a_removed_voter_is_flushed_for_its_fetches() -> None:
    """Q6: a leader has reported its removal, but its log still has it as a voter."""
    machine, emitted = driver_with_voters(1, 2, 3, election=ElectionState(5, 2))
    driver = machine.driver
    assert driver is not None
    refusal = fetch_response(high_watermark=9)
    refusal.responses[0].partitions[0].error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    refusal.removed_at = 8
    batch = records_batch([encode_metadata(NoOpRecord(), 0)], 0)
    stamp(batch, 0, 0, 5)
    for response in (refusal, fetch_response(high_watermark=9, records=bytes(batch))):
        (fetch,) = [it for it in emitted if isinstance(it, effects.SendRequest)]
        emitted.clear()
        driver.handle(effects.ResponseReceived("quorum", 2, fetch.number, response), NOW)
        assert (driver.core.role.name, driver.core.removed_at) == ("observer", 8)
    (append,) = [it for it in emitted if isinstance(it, effects.AppendBatch)]
    assert append.flush
    assert not [it for it in emitted if isinstance(it, effects.SendRequest)]
    driver.handle(effects.LogFlushed(METADATA_LOG, 1), NOW)
    (fetch,) = [it for it in emitted if isinstance(it, effects.SendRequest)]
    assert fetch.request.topics[0].partitions[0].fetch_offset == 1


def test_r7_a_removed_leader_refuses_a_fetch_and_names_the_next_leader() -> None:
    """Q28: the error is NOT_LEADER_OR_FOLLOWER, with the leader and epoch that it knows."""
    cluster = ThreeNodes(Random(1))
    cluster.loss = 0.0
    former = cluster._leader()
    former_id = former.node.config.node_id
    request = RemoveRaftVoterRequest(
        cluster_id=CLUSTER_ID, voter_id=former_id, voter_directory_id=directory_id_of(former_id)
    )
    epoch = former.node.quorum.epoch
    assert ask(cluster, former, ApiKey.REMOVE_RAFT_VOTER, request).error_code == ErrorCode.NONE
    cluster.settle(10_000)
    others = [each for each in NODES if each != former_id]
    leader = former.node.quorum.leader_id
    assert leader in others
    assert former.node.quorum.core.role.name == "observer"
    partition = fetch_as_replica(
        cluster, former, next(each for each in others if each != leader), epoch
    )
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.current_leader.leader_id == leader
    assert partition.current_leader.leader_epoch == former.node.quorum.epoch > epoch
    assert not partition.records
    cluster.check()
