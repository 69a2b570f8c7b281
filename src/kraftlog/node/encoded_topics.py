"""Topics as Metadata tells of them, in bytes: made when asked for, kept until something changes.

Clients ask for all topics again and again, and thousands of partitions take milliseconds to tell.
"""

from __future__ import annotations

from kraftlog.metadata.changes import BrokerChanged, PartitionChanged, TopicRemoved, TopicShown
from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.metadata.changes import Change
    from kraftlog.metadata.image import Image
    from kraftlog.types import Uuid

#: What is kept at most; beyond that all of it is made anew.
MOST_BYTES = 32 << 20


class EncodedTopics(MetadataPublisher):
    """By topic, and by whatever else makes a difference: a version, what was asked for."""

    name = "encoded topics"

    def __init__(self) -> None:
        self._kept: dict[Uuid, dict[Any, bytes]] = {}
        self._size_bytes = 0
        #: How many changes there were: what was begun before one may be out of date.
        self.changes = 0

    def get(self, topic_id: Uuid, form: Any) -> Any:
        """The piece, or None."""
        forms = self._kept.get(topic_id)
        return None if forms is None else forms.get(form)

    def keep(self, topic_id: Uuid, form: Any, piece: Any) -> Any:
        self._size_bytes += len(piece)
        if self._size_bytes > MOST_BYTES:
            self.clear()
            self._size_bytes = len(piece)
        self._kept.setdefault(topic_id, {})[form] = piece
        return piece

    def changed(self, change: Change) -> None:
        """What the image said of this does not count any more."""
        self.changes += 1
        if isinstance(change, PartitionChanged):
            partition = change.after or change.before
            assert partition is not None, "a change is from something or to something"
            self._forget(partition.topic_id)
        elif isinstance(change, (TopicShown, TopicRemoved)):
            self._forget(change.topic.id)
        elif isinstance(change, BrokerChanged):
            self.clear()  # replicas on it may be offline now, or no longer

    def reloaded(self, before: Image) -> None:  # noqa: ARG002 - publishers are called alike
        self.clear()

    def _forget(self, topic_id: Uuid) -> None:
        for piece in self._kept.pop(topic_id, {}).values():
            self._size_bytes -= len(piece)

    def clear(self) -> None:
        self.changes += 1
        self._kept.clear()
        self._size_bytes = 0
