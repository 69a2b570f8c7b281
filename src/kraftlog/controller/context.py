"""What a decision may use beside the state: who we are, the time, chance and new ids."""

from __future__ import annotations

from kraftlog.config.layers import ConfigLayers
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kraftlog.controller.placement import Rng
    from kraftlog.controller.sessions import BrokerSessions
    from kraftlog.types import Now, Uuid


class ControllerConfig(Value):
    node_id: int
    cluster_id: str
    default_partitions: int = 1
    default_replication_factor: int = 1
    #: How many replicas brokers are able to keep in sync.
    most_replicas: int = 32767
    #: A broker from which nothing was heard for so long is fenced.
    session_timeout_ms: int = 9000
    delete_topics: bool = True
    #: Whether and how often leadership returns to preferred leaders, by itself.
    rebalance_leaders: bool = True
    rebalance_interval_ms: int = 300_000
    #: How often leaderless partitions are looked at whose topics allow unclean elections.
    unclean_interval_ms: int = 300_000
    #: In how many elections at most one such look may end.
    elections_at_once: int = 1000


class Context:
    """One for each controller; `now` and `next_offset` are those of the request being decided."""

    __slots__ = (
        "_next_offset",
        "config",
        "is_offset_used",
        "kraft_version",
        "layers",
        "new_id",
        "now",
        "rng",
        "sessions",
        "static",
    )

    def __init__(
        self,
        config: ControllerConfig,
        static: Mapping[str, str],
        sessions: BrokerSessions,
        rng: Rng,
        new_id: Callable[[], Uuid],
        kraft_version: Callable[[], int],
    ) -> None:
        self.config = config
        #: What the node's own configuration file sets.
        self.static = static
        #: The same, and what was last seen to be set for all brokers.
        self.layers = ConfigLayers(static)
        self.sessions = sessions
        self.rng = rng
        self.new_id = new_id
        #: The level that the quorum's own records have set.
        self.kraft_version = kraft_version
        self.now: Now
        self._next_offset = 0
        #: Whether the decision is right for records at that offset alone.
        self.is_offset_used = False

    @property
    def next_offset(self) -> int:
        """The offset that the first record of a decision will have."""
        self.is_offset_used = True
        return self._next_offset

    def begin(self, now: Now, next_offset: int) -> None:
        """Another decision."""
        self.now, self._next_offset = now, next_offset
        self.is_offset_used = False
