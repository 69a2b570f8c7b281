"""A node's identity and settings, and the metadata that it recovers at start."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kraftlog.config.broker import BrokerConfig
    from kraftlog.controller.placement import Rng
    from kraftlog.groups.assignors.interface import Assignor
    from kraftlog.raft.config import RaftConfig
    from kraftlog.raft.log import RaftLog
    from kraftlog.raft.messages import ElectionState
    from kraftlog.types import Uuid
    from kraftlog.wire.schema import Message


class BrokerAddress(Value):
    """An advertised listener."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class NodeConfig(Value):
    """A node's identity and settings; `addresses` are its advertised listeners.

    The host provides `new_id` (unique ids), `rng` (a seeded generator) and `stopwatch_ns` (a clock
    for metrics only).
    """

    #: From `meta.properties`; None if it has none (Q29).
    cluster_id: str | None
    directory_id: Uuid
    settings: BrokerConfig
    raft: RaftConfig
    addresses: tuple[BrokerAddress, ...]
    new_id: Callable[[], Uuid]
    rng: Rng
    stopwatch_ns: Callable[[], int]
    #: The advertised controller listeners.
    controller_addresses: tuple[BrokerAddress, ...] = ()
    #: The broker epoch of the incarnation that shut down cleanly before this one; -1: none.
    previous_broker_epoch: int = -1
    #: The assignors of group.consumer.assignors, unless all are built in.
    own_assignors: Mapping[str, Assignor] | None = None

    @property
    def node_id(self) -> int:
        return self.settings.node_id


class RecoveredMetadata(Value):
    """The metadata log, the election state, and the records of the latest snapshot."""

    log: RaftLog
    election: ElectionState
    snapshot: tuple[Message, ...] = ()
    #: The end offset of that snapshot; without one, the start of the log.
    applied: int = 0
    #: The boot timestamp of the last start that reported itself to other nodes; -1: none.
    last_boot_ms: int = -1
    #: Bootstrap records from formatting, which the first active controller of a cluster writes.
    bootstrap: tuple[Message, ...] = ()
