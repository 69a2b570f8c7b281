"""The settings of the topics that are kept here, for their partitions and for their logs.

They are worked out when first needed, once for all topics that say the same, and again when a
layer of them changes: the topic's own settings, this broker's or those of all brokers.
"""

from __future__ import annotations

from kraftlog.config.keys import BROKER, TOPIC
from kraftlog.config.topic import TopicConfig
from kraftlog.effects import ConfigureLog
from kraftlog.replication.append_config import append_config_of
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Generator

    from kraftlog.metadata.changes import ConfigChanged
    from kraftlog.node.node import Node
    from kraftlog.replication.append_config import AppendConfig
    from kraftlog.replication.partition import Partition

#: What it costs to tell a partition and its log, in microseconds.
A_PARTITION_COSTS = 3


class TopicSettings(Value):
    """For the logs, and for who writes to the partitions."""

    config: TopicConfig
    append_config: AppendConfig


class TopicConfigs:
    """`of` a topic; changes are noted while records are replayed, and acted upon in `settling`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._made: dict[tuple[tuple[str, str], ...], TopicSettings] = {}
        self._changed: set[str] = set()
        self._all_changed = False

    def of(self, topic: str) -> TopicSettings:
        own = self._node.image.config(TOPIC, topic)
        said = tuple(sorted(own.items()))
        made = self._made.get(said)
        if made is None:
            config = TopicConfig(dict(own), self._node.config_layers())
            made = self._made[said] = TopicSettings(config, append_config_of(config))
        return made

    def note(self, change: ConfigChanged) -> None:
        if change.resource_type == TOPIC:
            self._changed.add(change.resource_name)
        elif change.resource_type == BROKER:
            self.note_all()

    def note_all(self) -> None:
        """What was worked out does not count any more."""
        self._all_changed = True
        self._made.clear()

    def settling(self) -> Generator[int, None, None]:
        """Tell the partitions and logs of the topics whose settings are others now."""
        if not self._all_changed and not self._changed:
            return
        node = self._node
        changed, everything = self._changed, self._all_changed
        self._changed, self._all_changed = set(), False
        if len(self._made) > len(node.image.topics) + 1:
            self._made.clear()  # what no topic says any more
        if everything:
            for partition in list(node.partitions.values()):
                self._configure(partition)
                yield A_PARTITION_COSTS
            return
        for name in sorted(changed):
            topic = node.image.topic_named(name)
            for index in range(topic.partition_count if topic is not None else 0):
                found = node.partitions.get((topic.id, index)) if topic is not None else None
                if found is not None:
                    self._configure(found)
                    yield A_PARTITION_COSTS

    def _configure(self, partition: Partition) -> None:
        settings = self.of(partition.topic)
        if partition.append_config is not settings.append_config:
            partition.append_config = settings.append_config
            self._node.emit(ConfigureLog(partition.log, settings.config))
