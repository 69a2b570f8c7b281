"""Context of a decision: configuration, time, random numbers and new ids."""

from __future__ import annotations

from kraftlog.config.layers import ConfigLayers
from kraftlog.controller.decision import THROTTLED
from kraftlog.controller.failure_evidence import FailureEvidence
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kraftlog.config.delegation_tokens import TokenConfig
    from kraftlog.controller.decision import Refusal
    from kraftlog.controller.placement import Rng
    from kraftlog.controller.sessions import BrokerSessions
    from kraftlog.logstate.voters import VoterSet
    from kraftlog.quotas.mutation_quota import Mutations
    from kraftlog.types import Now, Uuid


class ControllerConfig(Value):
    node_id: int
    cluster_id: str
    default_partitions: int = 1
    default_replication_factor: int = 1
    #: Time without a heartbeat after which a broker is fenced.
    session_timeout_ms: int = 9000
    delete_topics: bool = True
    #: Whether ACLs have an effect; without an authorizer they cannot be changed.
    has_authorizer: bool = False
    #: Whether and how often preferred leaders are elected automatically.
    rebalance_leaders: bool = True
    rebalance_interval_ms: int = 300_000
    #: Interval of unclean elections for topics that allow them.
    unclean_interval_ms: int = 300_000
    #: The most elections of one periodic run, preferred or unclean, and the most tokens that one
    #: removes; the next continues at once.
    elections_at_once: int = 1000
    #: None: there are no delegation tokens.
    tokens: TokenConfig | None = None


class Context:
    """The context of a controller; `now` and `next_offset` belong to the current request."""

    __slots__ = (
        "_next_offset",
        "arrived_ms",
        "committed_offset",
        "config",
        "evidence",
        "is_offset_used",
        "layers",
        "missing_report_reasons",
        "mutations",
        "new_id",
        "now",
        "principal",
        "reported_voters",
        "rng",
        "sessions",
        "static_config",
        "voters",
    )

    def __init__(
        self,
        config: ControllerConfig,
        static_config: Mapping[str, str],
        sessions: BrokerSessions,
        rng: Rng,
        new_id: Callable[[], Uuid],
        voters: Callable[[], VoterSet],
        reported_voters: Callable[[], VoterSet],
        missing_report_reasons: Callable[[], Mapping[int, str]],
    ) -> None:
        self.config = config
        #: Settings of the node's own file.
        self.static_config = static_config
        #: These settings, overridden by the latest cluster-wide broker configs.
        self.layers = ConfigLayers(static_config)
        self.sessions = sessions
        self.evidence = FailureEvidence(sessions)
        self.rng = rng
        self.new_id = new_id
        #: The voters of the quorum, from control records, which the controller does not replay.
        self.voters = voters
        #: These voters with what they have reported to the leader, to raise kraft.version.
        self.reported_voters = reported_voters
        #: Why directory ids are still unknown in `reported_voters`, by the ids of the voters.
        self.missing_report_reasons = missing_report_reasons
        self.now: Now
        #: When the request arrived; it may have waited for other decisions.
        self.arrived_ms = 0
        #: The principal of the client, if the decision depends on it.
        self.principal = ""
        #: What the quota of the client permits; None: it has no quota.
        self.mutations: Mutations | None = None
        self._next_offset = 0
        #: The last committed offset that this controller has replayed.
        self.committed_offset = -1
        #: Whether the decision depends on its offset.
        self.is_offset_used = False

    @property
    def next_offset(self) -> int:
        """Return the offset of the first record; the decision then depends on it."""
        self.is_offset_used = True
        return self._next_offset

    def refusal_of_mutations(self, partitions: int) -> Refusal | None:
        """Count partitions that are created or deleted, unless the client's quota is exhausted."""
        if self.mutations is None or self.mutations.permits(partitions, self.now.monotonic_ms):
            return None
        return THROTTLED

    def begin(
        self,
        now: Now,
        next_offset: int,
        arrived_ms: int | None = None,
        principal: str = "",
        mutations: Mutations | None = None,
    ) -> None:
        """Start another decision."""
        self.principal, self.mutations = principal, mutations
        self.now, self._next_offset = now, next_offset
        self.arrived_ms = now.monotonic_ms if arrived_ms is None else arrived_ms
        self.is_offset_used = False
