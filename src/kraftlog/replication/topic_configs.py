"""`TopicConfigs`: the effective settings of topics, for their partitions and logs.

They are computed on first use, once for all topics with equal overrides, and again when a layer
changes: the topic's own overrides, this broker's settings or the cluster-wide defaults.
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
    """Effective settings of a topic: for its logs, and for appends."""

    config: TopicConfig
    append_config: AppendConfig


class TopicConfigs(MetadataPublisher):
    """Computes and caches the settings of topics; replay collects changes for `take_changed`."""

    name = "topic configs"

    def __init__(self, metadata: MetadataLoader, layers: Callable[[], ConfigLayers]) -> None:
        self._metadata = metadata
        #: The layers below a topic's own overrides.
        self._layers = layers
        self._cache: dict[tuple[tuple[str, str], ...], TopicSettings] = {}
        self._changed: set[str] = set()
        self._all_changed = False

    def of(self, topic: str) -> TopicSettings:
        own = self._metadata.image.config(TOPIC, topic)
        overrides = tuple(sorted(own.items()))
        settings = self._cache.get(overrides)
        if settings is None:
            config = TopicConfig(dict(own), self._layers())
            settings = self._cache[overrides] = TopicSettings(config, append_config_of(config))
        return settings

    def changed(self, change: Change) -> None:
        if isinstance(change, ConfigChanged):
            if change.resource_type == TOPIC:
                self._changed.add(change.resource_name)
            elif change.resource_type == BROKER:
                self._forget_all()

    def reloaded(self, before: Image) -> None:  # noqa: ARG002 - interface of publishers
        self._forget_all()

    def _forget_all(self) -> None:
        self._all_changed = True
        self._cache.clear()

    def take_changed(self) -> tuple[bool, Sequence[str]]:
        """Whether all topics may have changed since the last call, and otherwise which have."""
        if not self._all_changed and not self._changed:
            return False, ()
        changed, all_changed = self._changed, self._all_changed
        self._changed, self._all_changed = set(), False
        if len(self._cache) > len(self._metadata.image.topics) + 1:
            self._cache.clear()  # drop overrides that no topic has any more
        return all_changed, sorted(changed)
