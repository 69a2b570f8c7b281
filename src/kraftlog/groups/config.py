"""`GroupConfig`: limits and timeouts of a coordinator, named after Kafka's settings."""

from __future__ import annotations

from kraftlog.config.combinations import BUILTIN_ASSIGNORS
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.groups.assignors.interface import Assignor


class GroupConfig(Value):
    """Kafka's defaults, except for the initial rebalance delay, which slows every first join."""

    #: group.min.session.timeout.ms, group.max.session.timeout.ms
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    #: group.initial.rebalance.delay.ms; Kafka's own default is 3000.
    initial_rebalance_delay_ms: int = 0
    #: group.max.size
    max_size: int = 2**31 - 1
    #: How long a new member may wait for a generation to complete; Kafka has no setting for it.
    new_member_join_timeout_ms: int = 300_000
    #: group.consumer.session.timeout.ms, group.consumer.heartbeat.interval.ms, and the smallest and
    #: largest values that a group may set for itself: group.consumer.min.session.timeout.ms ...
    consumer_session_timeout_ms: int = 45_000
    consumer_session_limits_ms: tuple[int, int] = (45_000, 60_000)
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_heartbeat_limits_ms: tuple[int, int] = (5_000, 15_000)
    #: group.consumer.max.size
    consumer_max_size: int = 2**31 - 1
    #: group.consumer.assignment.interval.ms: between two target assignments of a group.
    consumer_assignment_interval_ms: int = 1_000
    consumer_assignment_limits_ms: tuple[int, int] = (0, 15_000)
    #: group.consumer.assignors: the first is that of groups whose members name none.
    consumer_assignors: tuple[str, ...] = BUILTIN_ASSIGNORS
    #: They by name, unless all are built in.
    own_assignors: Mapping[str, Assignor] | None = None
    #: group.consumer.regex.refresh.interval.ms: how long resolved expressions count at most.
    regex_refresh_interval_ms: int = 600_000
    #: group.consumer.migration.policy: which groups may change their protocol with members.
    consumer_migration_policy: str = "bidirectional"
    #: offset.metadata.max.bytes
    offset_metadata_max_bytes: int = 4_096
    #: offsets.retention.minutes, in milliseconds, and offsets.retention.check.interval.ms
    offsets_retention_ms: int = 7 * 24 * 60 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    #: offsets.commit.timeout.ms: how long a request waits for its records to be committed.
    offsets_commit_timeout_ms: int = 5_000
