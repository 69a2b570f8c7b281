"""`Admin.describe_metadata_quorum` against a server with prepared responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog import Admin
from kraftlog.errors import ErrorCode, RefusedError
from kraftlog.types import METADATA_TOPIC
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.describe_quorum import (
    DescribeQuorumResponse,
    PartitionResult,
    ReplicaState,
    TopicResult,
)
from tests.client.test_cluster import broker
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from tests.client.test_cluster import Broker

__all__ = ["broker"]


def test_d5_a_client_that_may_not_describe_the_cluster_is_told_so(broker: Broker) -> None:
    """A Kafka broker with an authorizer answers like this without DESCRIBE on the cluster."""
    refused = DescribeQuorumResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, topics=())
    broker.responses[ApiKey.DESCRIBE_QUORUM] = [refused]
    with (
        Admin(f"127.0.0.1:{broker.port}", timeout_s=LIMIT_S) as admin,
        pytest.raises(RefusedError) as failed,
    ):
        admin.describe_metadata_quorum()
    assert failed.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert "CLUSTER_AUTHORIZATION_FAILED" in str(failed.value)


def test_d5_unknown_timestamps_are_empty_and_a_call_has_its_own_timeout(broker: Broker) -> None:
    replicas = [
        ReplicaState(
            replica_id=node_id,
            log_end_offset=9,
            last_fetch_timestamp=time_ms,
            last_caught_up_timestamp=time_ms,
        )
        for node_id, time_ms in ((1, 5000), (2, -1))
    ]
    leaderless, described = [
        DescribeQuorumResponse(
            error_code=0,
            topics=[
                TopicResult(
                    topic_name=METADATA_TOPIC,
                    partitions=[
                        PartitionResult(
                            partition_index=0,
                            error_code=code,
                            leader_id=1,
                            leader_epoch=2,
                            high_watermark=9,
                            current_voters=replicas,
                            observers=(),
                        )
                    ],
                )
            ],
        )
        for code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE)
    ]
    broker.responses[ApiKey.DESCRIBE_QUORUM] = [leaderless, described]
    with Admin(f"127.0.0.1:{broker.port}", timeout_s=0) as admin:
        # The admin's own timeout would not allow for a second attempt.
        shown = admin.describe_metadata_quorum(timeout_s=LIMIT_S)
    times = [(each.last_fetch_ms, each.last_caught_up_ms) for each in shown.voters]
    assert times == [(5000, 5000), (None, None)]
