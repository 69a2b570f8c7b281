"""`ClusterMetadata`: what consumer groups know of topics, with Kafka's hash, and their configs.

A group's record has the hash of the topics that its members subscribe to: their ids, names,
partitions and the racks of these. A group with another hash gets a new assignment.
"""

from __future__ import annotations

import struct

from kraftlog.config.keys import GROUP
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kraftlog.metadata.image import Image
    from kraftlog.metadata.values import TopicImage
    from kraftlog.types import Uuid

#: The version of Kafka's way to hash a topic.
HASH_VERSION = 0


class ClusterMetadata:
    """The topics and group configs of a broker's image, shared by its shards."""

    __slots__ = ("_applied", "_hashes", "_image", "new_since", "version")

    def __init__(self, image: Callable[[], Image], applied: Callable[[], int] = int) -> None:
        """`applied`: the offset of the metadata log up to which the image is."""
        self._image, self._applied = image, applied
        #: The offset at which the image last got a topic.
        self.new_since = -1
        #: Increases with every change that may concern a group.
        self.version = 0
        #: By topic id, as a topic of the same name is another one.
        self._hashes: dict[Uuid, int] = {}

    @property
    def offset(self) -> int:
        return self._applied()

    def changed(self, topic_id: Uuid, *, is_new: bool = False) -> None:
        """The topic is new, was deleted, or its partitions or their replicas changed."""
        self.version += 1
        if is_new:
            self.new_since = self.offset + 1
        self._hashes.pop(topic_id, None)

    def reloaded(self) -> None:
        self.version += 1
        self.new_since = self.offset + 1
        self._hashes.clear()

    def named(self, name: str) -> TopicImage | None:
        return self._image().topic_named(name)

    def names(self) -> Iterator[str]:
        """The names of the topics that there are now, which may change meanwhile."""
        for topic in list(self._image().topics.values()):
            yield topic.name

    def with_id(self, topic_id: Uuid) -> TopicImage | None:
        return self._image().topics.get(topic_id)

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        """The configs that are set on a group."""
        return self._image().config(GROUP, group_id)

    def racks(self, topic: TopicImage) -> list[list[str]]:
        """The racks of each partition's replicas, for the brokers that have one."""
        image = self._image()
        return [
            [
                broker.rack
                for replica in partition.replicas
                if (broker := image.brokers.get(replica)) is not None and broker.rack is not None
            ]
            for partition in image.partitions_of(topic)
        ]

    def hash_of(self, names: Iterable[str]) -> int:
        """The hash of these topics as far as they exist; 0 without any."""
        # Java sorts strings by their UTF-16 units; the names of topics are ASCII.
        topics = [topic for name in sorted(names) if (topic := self.named(name)) is not None]
        if not topics:
            return 0
        return xxh3(b"".join([struct.pack("<q", self._hash_of_topic(topic)) for topic in topics]))

    def _hash_of_topic(self, topic: TopicImage) -> int:
        value = self._hashes.get(topic.id)
        if value is None:
            value = self._hashes[topic.id] = topic_hash(topic, self.racks(topic))
        return value


def topic_hash(topic: TopicImage, racks: list[list[str]]) -> int:
    most, least = struct.unpack(">qq", topic.id)
    parts = [
        struct.pack("<bqq", HASH_VERSION, most, least),
        _text(topic.name),
        struct.pack("<i", topic.partition_count),
    ]
    for index, of_partition in enumerate(racks):
        parts.append(struct.pack("<i", index))
        for rack in sorted(of_partition):
            parts += [struct.pack("<i", _java_length(rack)), _text(rack)]
    return xxh3(b"".join(parts))


def _text(text: str) -> bytes:
    """A string as hash4j feeds it to a hash: its UTF-16 units and their number."""
    return text.encode("utf-16-le", "surrogatepass") + struct.pack("<i", _java_length(text))


def _java_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def xxh3(data: bytes) -> int:
    """XXH3's 64 bits as a signed number."""
    import xxhash  # loaded with the first consumer group

    unsigned: int = xxhash.xxh3_64_intdigest(data)
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned
