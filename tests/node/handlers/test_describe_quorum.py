"""DescribeQuorum over the wire: kraftlog's own fields are tagged fields."""

from __future__ import annotations

from typing import Any

from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import describe_quorum as api
from tests.node.frame_client import FrameClient
from tests.virtual_host import VirtualHost


def described(host: VirtualHost, version: int = 2) -> Any:
    topic = api.TopicData(
        topic_name="__cluster_metadata", partitions=[api.PartitionData(partition_index=0)]
    )
    request = api.DescribeQuorumRequest(topics=[topic])
    answer = FrameClient(host).ask(ApiKey.DESCRIBE_QUORUM, version, request)
    return answer.topics[0].partitions[0]


def test_r13_a_voter_reassignment_is_described_with_its_targets() -> None:
    """R4: target 4 does not fetch yet, so the step that adds it waits."""
    host = VirtualHost()
    before = described(host)
    assert (before.target_voters, tuple(before.awaited_targets)) == (None, ())
    assert [it.is_target for it in before.current_voters] == [False]
    quorum = host.node.quorum
    assert not quorum.change_voters(quorum.core.reassign, (1, 4), lambda *_: None, host.now)
    host.turn()
    for version in (0, 1, 2):
        during = described(host, version)
        assert (tuple(during.target_voters), tuple(during.awaited_targets)) == ((1, 4), (4,))
        assert [it.is_target for it in during.current_voters] == [True]
