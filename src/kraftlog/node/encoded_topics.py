"""`EncodedTopics`: a cache of topics as encoded in Metadata responses.

Clients request all topics again and again, and thousands of partitions take milliseconds to encode.
"""

from __future__ import annotations

from kraftlog.metadata.changes import BrokerChanged, PartitionChanged, TopicPublished, TopicRemoved
from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.metadata.changes import Change
    from kraftlog.metadata.image import Image
    from kraftlog.types import Uuid

#: Maximum size; beyond it the cache is cleared.
MAX_BYTES = 32 << 20


class EncodedTopics(MetadataPublisher):
    """Encoded topics by topic id and form; a form is the version and options of a request."""

    name = "encoded topics"

    def __init__(self) -> None:
        self._kept: dict[Uuid, dict[Any, bytes]] = {}
        self._size_bytes = 0
        #: Number of changes so far: an encoding that began before the last one may be outdated.
        self.changes = 0

    def get(self, topic_id: Uuid, form: Any) -> Any:
        """The encoded topic, or None."""
        forms = self._kept.get(topic_id)
        return None if forms is None else forms.get(form)

    def keep(self, topic_id: Uuid, form: Any, encoded: Any) -> Any:
        """Add an encoded topic; returns it."""
        self._size_bytes += len(encoded)
        if self._size_bytes > MAX_BYTES:
            self.clear()
            self._size_bytes = len(encoded)
        self._kept.setdefault(topic_id, {})[form] = encoded
        return encoded

    def changed(self, change: Change) -> None:
        """Drop the topics that a change affects."""
        self.changes += 1
        if isinstance(change, PartitionChanged):
            partition = change.after or change.before
            assert partition is not None, "a change has a state before it or after it"
            self._forget(partition.topic_id)
        elif isinstance(change, (TopicPublished, TopicRemoved)):
            self._forget(change.topic.id)
        elif isinstance(change, BrokerChanged):
            self.clear()  # its replicas may have become offline or online

    def reloaded(self, before: Image) -> None:  # noqa: ARG002 - interface of publishers
        self.clear()

    def _forget(self, topic_id: Uuid) -> None:
        for encoded in self._kept.pop(topic_id, {}).values():
            self._size_bytes -= len(encoded)

    def clear(self) -> None:
        self.changes += 1
        self._kept.clear()
        self._size_bytes = 0
