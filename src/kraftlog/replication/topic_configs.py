"""The settings of the topics that are kept here, for their partitions and for their logs.

They are worked out when first needed, once for all topics that say the same, and again when a
layer of them changes: the topic's own settings, this broker's or those of all brokers.
"""

from __future__ import annotations

from kraftlog.config.keys import BROKER, TOPIC
from kraftlog.config.topic import TopicConfig
from kraftlog.metadata.changes import ConfigChanged
from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.replication.append_config import append_config_of
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraftlog.config.layers import ConfigLayers
    from kraftlog.metadata.changes import Change
    from kraftlog.metadata.image import Image
    from kraftlog.metadata.loader import MetadataLoader
    from kraftlog.replication.append_config import AppendConfig


class TopicSettings(Value):
    """For the logs, and for who writes to the partitions."""

    config: TopicConfig
    append_config: AppendConfig


class TopicConfigs(MetadataPublisher):
    """`of` a topic; what changes while records are replayed is kept for `take_changed`."""

    name = "topic configs"

    def __init__(self, metadata: MetadataLoader, layers: Callable[[], ConfigLayers]) -> None:
        self._metadata = metadata
        #: What stands below the topics' own settings.
        self._layers = layers
        self._made: dict[tuple[tuple[str, str], ...], TopicSettings] = {}
        self._changed: set[str] = set()
        self._all_changed = False

    def of(self, topic: str) -> TopicSettings:
        own = self._metadata.image.config(TOPIC, topic)
        said = tuple(sorted(own.items()))
        made = self._made.get(said)
        if made is None:
            config = TopicConfig(dict(own), self._layers())
            made = self._made[said] = TopicSettings(config, append_config_of(config))
        return made

    def changed(self, change: Change) -> None:
        if isinstance(change, ConfigChanged):
            if change.resource_type == TOPIC:
                self._changed.add(change.resource_name)
            elif change.resource_type == BROKER:
                self._forget_all()

    def reloaded(self, before: Image) -> None:  # noqa: ARG002 - publishers are called alike
        self._forget_all()

    def _forget_all(self) -> None:
        """What was worked out does not count any more."""
        self._all_changed = True
        self._made.clear()

    def take_changed(self) -> tuple[bool, Sequence[str]]:
        """Whether any topic's settings may be others since the last time; else those topics."""
        if not self._all_changed and not self._changed:
            return False, ()
        changed, is_everything = self._changed, self._all_changed
        self._changed, self._all_changed = set(), False
        if len(self._made) > len(self._metadata.image.topics) + 1:
            self._made.clear()  # what no topic says any more
        return is_everything, sorted(changed)
