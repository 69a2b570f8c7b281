"""DescribeCluster: the brokers or, by endpoint type 2, the controllers."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int8, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class DescribeClusterRequest(Message, versions=(0, 2), flexible=0):
    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8(since=1, default=1)
    include_fenced_brokers: bool = boolean(since=2, default=False)
    # Our own: requests a linearizable read.
    linearizable: bool = boolean(tag=10000, default=False)


class DescribeClusterBroker(Message):
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=True, default=None)
    is_fenced: bool = boolean(since=2, default=False)


class DescribeClusterResponse(Message, versions=(0, 2), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    endpoint_type: int = int8(since=1, default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: Sequence[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-2147483648)
