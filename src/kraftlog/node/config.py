"""Who a node is, and what it finds of the metadata when it starts."""

from __future__ import annotations

from kraftlog.types import NULL_UUID, Uuid
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.raft.config import RaftConfig
    from kraftlog.raft.log import RaftLog
    from kraftlog.raft.messages import ElectionState
    from kraftlog.wire.schema import Message


class NodeConfig(Value):
    """A node is a broker, a controller, or both."""

    node_id: int
    cluster_id: str
    raft: RaftConfig
    directory_id: Uuid = NULL_UUID
    is_broker: bool = True
    is_controller: bool = True
    request_timeout_ms: int = 2000


class RecoveredMetadata(Value):
    """The metadata log as the quorum's core sees it, the election state, the records of the
    newest snapshot, and where the log goes on behind them."""

    log: RaftLog
    election: ElectionState
    snapshot: tuple[Message, ...] = ()
    applied: int = 0
