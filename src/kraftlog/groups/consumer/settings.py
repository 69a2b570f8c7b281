"""The settings of one consumer group: its own configs within the broker's limits, or defaults."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.groups.config import GroupConfig


class ConsumerGroupSettings(Value):
    """Kafka's `consumer.*` configs of a group, in milliseconds."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def settings_of(config: GroupConfig, own: Mapping[str, str]) -> ConsumerGroupSettings:
    """The settings of a group with these configs of its own.

    Configs that were accepted before the broker's limits changed count as the nearest limit.
    """
    return ConsumerGroupSettings(
        _limited(
            own.get("consumer.session.timeout.ms"),
            config.consumer_session_timeout_ms,
            config.consumer_session_limits_ms,
        ),
        _limited(
            own.get("consumer.heartbeat.interval.ms"),
            config.consumer_heartbeat_interval_ms,
            config.consumer_heartbeat_limits_ms,
        ),
        _limited(
            own.get("consumer.assignment.interval.ms"),
            config.consumer_assignment_interval_ms,
            config.consumer_assignment_limits_ms,
        ),
    )


def _limited(own: str | None, default: int, limits: tuple[int, int]) -> int:
    return default if own is None else min(max(int(own), limits[0]), limits[1])
