"""The changes that a replayed record makes to the image, for metadata publishers."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.metadata.values import BrokerImage, PartitionImage, TopicImage
    from kraftlog.wire.messages.metadata_records import AccessControlEntryRecord


class TopicCreated(Value):
    topic: TopicImage


class TopicPublished(Value):
    """The changes of a batch to a topic are all replayed, and visible from now on."""

    topic: TopicImage


class TopicRemoved(Value):
    """A deleted topic; follows the removals of its partitions."""

    topic: TopicImage


class PartitionChanged(Value):
    """A changed partition; `before` is None if it is new, `after` if it is removed."""

    before: PartitionImage | None
    after: PartitionImage | None


class BrokerChanged(Value):
    """A changed broker; `before` is None if it is new, `after` if it is unregistered."""

    before: BrokerImage | None
    after: BrokerImage | None


class ConfigChanged(Value):
    """A changed config; `value` is None if the key returns to its default."""

    resource_type: int
    resource_name: str
    key: str
    value: str | None


class FeatureChanged(Value):
    name: str
    level: int


class AclChanged(Value):
    """A changed ACL; `before` is None if it is new, `after` if it is removed."""

    before: AccessControlEntryRecord | None
    after: AccessControlEntryRecord | None


class QuotaChanged(Value):
    """A changed quota; `before` is None if it is new, `after` if it is removed."""

    entity: tuple[tuple[str, str | None], ...]
    key: str
    before: float | None
    after: float | None


Change = (
    TopicCreated
    | TopicPublished
    | TopicRemoved
    | PartitionChanged
    | BrokerChanged
    | ConfigChanged
    | FeatureChanged
    | AclChanged
    | QuotaChanged
)
