"""What a replayed record has changed: so that whoever follows the image does no more than that."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.metadata.values import BrokerImage, PartitionImage, TopicImage


class TopicCreated(Value):
    topic: TopicImage


class TopicShown(Value):
    """All that a batch says of a topic has been replayed, and can be seen from here on."""

    topic: TopicImage


class TopicRemoved(Value):
    """Comes behind the removals of the topic's partitions."""

    topic: TopicImage


class PartitionChanged(Value):
    """`before` is None where the partition is new, `after` where it is gone."""

    before: PartitionImage | None
    after: PartitionImage | None


class BrokerChanged(Value):
    """`before` is None where the broker is new, `after` where it is gone."""

    before: BrokerImage | None
    after: BrokerImage | None


class ConfigChanged(Value):
    """`value` is None where the key falls back to what stands below."""

    resource_type: int
    resource_name: str
    key: str
    value: str | None


class FeatureChanged(Value):
    name: str
    level: int


Change = (
    TopicCreated
    | TopicShown
    | TopicRemoved
    | PartitionChanged
    | BrokerChanged
    | ConfigChanged
    | FeatureChanged
)
