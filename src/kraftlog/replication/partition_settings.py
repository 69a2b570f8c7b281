"""`PartitionSettings`: changed topic settings reach the partitions and logs of this broker.

A changed `min.insync.replicas` decides about commits, so its partitions are held until the batch of
metadata is replayed and they are configured: an ISR change in the same batch counts with it (V20).
"""

from __future__ import annotations

from kraftlog.config.keys import TOPIC
from kraftlog.effects import ConfigureLog
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from kraftlog.metadata.changes import ConfigChanged
    from kraftlog.metadata.loader import MetadataLoader
    from kraftlog.replication.partition import Partition
    from kraftlog.replication.topic_configs import TopicConfigs
    from kraftlog.types import Uuid

#: The setting that decides about commits.
MIN_ISR_KEY = "min.insync.replicas"
#: Cost of configuring a partition and its log, in microseconds.
PARTITION_COST = 3


class PartitionSettings:
    """Configures `partitions` with the settings of their topics."""

    def __init__(
        self,
        metadata: MetadataLoader,
        topic_configs: TopicConfigs,
        partitions: dict[tuple[Uuid, int], Partition],
        emit: Callable[[Any], None],
    ) -> None:
        self._metadata = metadata
        self._topic_configs = topic_configs
        self._partitions = partitions
        self._emit = emit

    def held_by(self, change: ConfigChanged) -> Iterable[Partition]:
        """The partitions about whose commits a changed setting decides."""
        if change.key != MIN_ISR_KEY:
            return ()
        if change.resource_type == TOPIC:
            return self._of_topic(change.resource_name)
        return self._partitions.values()

    def take_changed(self) -> tuple[bool, Iterator[Partition]]:
        """Whether any settings have changed since the last call, and the partitions concerned."""
        all_changed, topics = self._topic_configs.take_changed()
        if all_changed:
            return True, iter(list(self._partitions.values()))
        return bool(topics), (partition for name in topics for partition in self._of_topic(name))

    def configure(self, partitions: Iterator[Partition]) -> Iterator[int]:
        """Configure partitions in steps."""
        for partition in partitions:
            settings = self._topic_configs.of(partition.topic)
            if partition.append_config is not settings.append_config:
                partition.configure(settings.append_config)
                self._emit(ConfigureLog(partition.log, settings.config))
            yield PARTITION_COST

    def _of_topic(self, name: str) -> Iterator[Partition]:
        topic = self._metadata.image.topic_named(name)
        for index in range(topic.partition_count if topic is not None else 0):
            partition = self._partitions.get((topic.id, index)) if topic is not None else None
            if partition is not None:
                yield partition
