"""Who a node is, and what it finds of the metadata when it starts."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.config.broker import BrokerConfig
    from kraftlog.controller.placement import Rng
    from kraftlog.node.broker.broker_lifecycle import BrokerAddress
    from kraftlog.raft.config import RaftConfig
    from kraftlog.raft.log import RaftLog
    from kraftlog.raft.messages import ElectionState
    from kraftlog.types import Uuid
    from kraftlog.wire.schema import Message

#: Replicas of a partition that brokers can keep: they do not fetch from each other yet.
MOST_REPLICAS = 1


class NodeConfig(Value):
    """Who the node is, by its directory and its settings; `addresses` are what others are told.

    `new_id` makes ids that nobody has, `rng` is a seeded generator, `stopwatch_ns` is a clock
    for metrics, by which nothing is decided: all are the host's.
    """

    #: As far as `meta.properties` says it (Q29).
    cluster_id: str | None
    directory_id: Uuid
    settings: BrokerConfig
    raft: RaftConfig
    addresses: tuple[BrokerAddress, ...]
    new_id: Callable[[], Uuid]
    rng: Rng
    stopwatch_ns: Callable[[], int]
    #: Where other nodes reach this controller.
    controller_addresses: tuple[BrokerAddress, ...] = ()

    @property
    def node_id(self) -> int:
        return self.settings.node_id


class RecoveredMetadata(Value):
    """The metadata log as the quorum's core sees it, the election state, the records of the
    newest snapshot, and where the log goes on behind them."""

    log: RaftLog
    election: ElectionState
    snapshot: tuple[Message, ...] = ()
    applied: int = 0
    #: With what the first controller of a cluster begins, where its directory was formatted.
    bootstrap: tuple[Message, ...] = ()
