"""DiscoverBrokers, an API of our own: nodes exchange the addresses of the voters."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int16, int32, int64, string, uint16

if TYPE_CHECKING:
    from collections.abc import Sequence


class DiscoverBrokersRequest(Message, versions=(0, 0), flexible=0):
    """A sender with an id also reports its address; with `broker_id` -1 it only asks for others."""

    cluster_id: str | None = string(nullable=True)
    broker_id: int = int32(default=-1)
    host: str = string(default="")
    port: int = uint16(default=0)
    boot_timestamp_ms: int = int64(default=-1)
    #: The newest epoch that the sender knows.
    leader_epoch: int = int32(default=-1, tag=0)


class DiscoveredBroker(Message):
    """A voter or target voter; `boot_timestamp_ms` is -1 if it has not reported its address."""

    broker_id: int = int32()
    host: str = string()
    port: int = uint16()
    boot_timestamp_ms: int = int64()
    #: The newest epoch that it knew when it reported its address.
    leader_epoch: int = int32(default=-1, tag=0)


class DiscoverBrokersResponse(Message, versions=(0, 0), flexible=0):
    error_code: int = int16(default=0)
    cluster_id: str | None = string(nullable=True)
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32()
    brokers: Sequence[DiscoveredBroker] = array(DiscoveredBroker)
    #: The node that responds: a bootstrap server may be any, and an address may be wrong.
    node_id: int = int32(default=-1, tag=0)
