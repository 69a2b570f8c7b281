"""Replication quotas (V10): bytes per second for the replicas that are listed as throttled.

The rate is a dynamic setting of the broker; topic configs list the replicas (`*`, or
`partition:broker,…`). Only replicas that lack committed records are throttled, so that a quota
cannot push a replica out of the ISR; but the bytes of all listed replicas count.
"""

from __future__ import annotations

from collections import deque

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.replication.partition import Partition
    from kraftlog.replication.replicating_node import ReplicatingNode
    from kraftlog.replication.services import ReplicationConfig
    from kraftlog.replication.topic_configs import TopicConfigs

NO_LIMIT = (1 << 63) - 1
ALL_REPLICAS = "*"
#: The longest time for which a replica is throttled before the rate is checked again.
MAX_THROTTLE_MS = 1000


class ByteRate:
    """The mean rate over the last windows, as Kafka measures it."""

    def __init__(self, windows: int, window_ms: int) -> None:
        self._window_ms = window_ms
        self._kept_ms = windows * window_ms
        #: [start, bytes] of each window with bytes, oldest first.
        self._samples: deque[list[int]] = deque()
        self._total = 0

    def record(self, size: int, now_ms: int) -> None:
        self._drop_old(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= self._window_ms:
            self._samples.append([now_ms, 0])
        self._samples[-1][1] += size
        self._total += size

    def _drop_old(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][0] >= self._kept_ms:
            self._total -= self._samples.popleft()[1]

    def wait_ms(self, limit: int, now_ms: int) -> int:
        """How long to pause until the rate is within a limit; 0 if it is."""
        self._drop_old(now_ms)
        if not self._samples:
            return 0
        started_ms = self._samples[0][0]
        elapsed_ms = max(now_ms - started_ms, self._window_ms)
        if self._total * 1000 <= limit * elapsed_ms:
            return 0
        needed_ms = self._kept_ms if limit <= 0 else -(-self._total * 1000 // limit)
        return max(1, min(started_ms + needed_ms - now_ms, MAX_THROTTLE_MS))


class ReplicationQuota:
    """The quota of this broker as leader or as follower: the two keys are its settings."""

    def __init__(
        self,
        rate_key: str,
        replicas_key: str,
        broker_id: int,
        node: ReplicatingNode,
        topic_configs: TopicConfigs,
        rate: ByteRate,
    ) -> None:
        self._rate_key = rate_key
        self._replicas_key = replicas_key
        self._broker_id = broker_id
        self._node = node
        self._topic_configs = topic_configs
        self._limit = NO_LIMIT
        self._rate = rate
        #: The throttled partitions of each topic on this broker; None: all.
        self._listed: dict[str, frozenset[int] | None] = {}

    def configs_changed(self) -> None:
        self._limit = self._node.config_layers().value(self._rate_key)
        self._listed.clear()

    @property
    def is_limited(self) -> bool:
        return self._limit != NO_LIMIT

    def applies_to(self, partition: Partition) -> bool:
        """Whether the bytes of a partition count."""
        if not self.is_limited:
            return False
        topic = partition.topic
        if topic not in self._listed:
            items = self._topic_configs.of(topic).config[self._replicas_key]
            self._listed[topic] = throttled_partitions(items, self._broker_id)
        listed = self._listed[topic]
        return listed is None or partition.index in listed

    def record(self, size: int) -> None:
        self._rate.record(size, self._node.now.monotonic_ms)

    def throttle_ms(self) -> int:
        """How long to throttle the replicas to which the quota applies; 0: not at all."""
        if not self.is_limited:
            return 0
        return self._rate.wait_ms(self._limit, self._node.now.monotonic_ms)


class ReplicationQuotas:
    """The quotas for the bytes that this broker sends as leader and fetches as follower."""

    def __init__(
        self, config: ReplicationConfig, node: ReplicatingNode, topic_configs: TopicConfigs
    ) -> None:
        self.leader, self.follower = [
            ReplicationQuota(
                rate_key,
                replicas_key,
                config.fetch.broker_id,
                node,
                topic_configs,
                ByteRate(config.quota_windows, config.quota_window_ms),
            )
            for rate_key, replicas_key in (
                ("leader.replication.throttled.rate", "leader.replication.throttled.replicas"),
                ("follower.replication.throttled.rate", "follower.replication.throttled.replicas"),
            )
        ]

    def configs_changed(self) -> None:
        """Settings of this broker or of topics have changed."""
        self.leader.configs_changed()
        self.follower.configs_changed()


def throttled_partitions(items: Sequence[str], broker_id: int) -> frozenset[int] | None:
    """The partitions of `partition:broker` items with this broker; None for all of the topic."""
    if ALL_REPLICAS in items:
        return None
    pairs = [item.partition(":") for item in items if item]
    return frozenset([int(index) for index, _, broker in pairs if int(broker) == broker_id])
