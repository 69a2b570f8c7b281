"""BrokerRegistration: a broker registers with the controller."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int16, int32, int64, string, uint16, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class Listener(Message):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class Feature(Message):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


#: `replaced_broker_epoch` of a broker that does not send it, such as Kafka's.
NOT_SENT = -2


class BrokerRegistrationRequest(Message, versions=(0, 4), flexible=0):
    broker_id: int = int32()
    cluster_id: str = string()
    incarnation_id: Uuid = uuid()
    listeners: Sequence[Listener] = array(Listener)
    features: Sequence[Feature] = array(Feature)
    rack: str | None = string(nullable=True)
    is_migrating_zk_broker: bool = boolean(since=1, default=False)
    log_dirs: Sequence[Uuid] = array("uuid", since=2, default=(), ignorable=True)
    previous_broker_epoch: int = int64(since=3, default=-1, ignorable=True)
    #: The broker epoch of the registration that this one replaces; -1: there is none.
    replaced_broker_epoch: int = int64(tag=10000, default=NOT_SENT)


class BrokerRegistrationResponse(Message, versions=(0, 4), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    broker_epoch: int = int64(default=-1)
