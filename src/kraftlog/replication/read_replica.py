"""KIP-392: chooses the replica that a consumer reads from, by the consumer's rack.

The leader refers a consumer in another rack to a follower in that rack; the consumer then fetches
from the follower, up to the follower's high watermark. Configured by `replica.selector.class`, as
in Kafka.
"""

from __future__ import annotations

from kraftlog.errors import ConfigError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.metadata.image import Image
    from kraftlog.replication.followers import Follower
    from kraftlog.replication.partition import Partition

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_ONLY = "org.apache.kafka.common.replica.LeaderSelector"
#: No follower: the consumer reads from the leader.
NO_FOLLOWER = -1


def selects_by_rack(selector: str | None) -> bool:
    """Whether a `replica.selector.class` refers consumers to a follower in their rack."""
    if selector not in (None, "", RACK_AWARE, LEADER_ONLY):
        raise ConfigError(f"replica.selector.class: {selector} is not {RACK_AWARE}")
    return selector == RACK_AWARE


def nearest_follower(
    partition: Partition, offset: int, rack: str, image: Image, listener: str
) -> int:
    """The follower in a rack that is in sync and has the offset; `NO_FOLLOWER` if there is none.

    If the leader is in that rack, too, the consumer stays with the leader. Among several followers
    the one with the highest end offset is chosen, then the one that caught up most recently, then
    the one with the highest id.
    """
    leader = image.brokers.get(partition.leader)
    if partition.followers is None or leader is None or leader.rack == rack:
        return NO_FOLLOWER

    def is_suitable(follower: Follower) -> bool:
        broker = image.brokers.get(follower.broker_id)
        return (
            broker is not None
            and broker.rack == rack
            and broker.active
            and broker.endpoint(listener) is not None
            and follower.broker_id in partition.isr
            and follower.start <= offset <= follower.end
        )

    suitable = [
        follower for follower in partition.followers.by_broker.values() if is_suitable(follower)
    ]
    nearest = max(
        suitable,
        key=lambda follower: (follower.end, follower.caught_up_ms, follower.broker_id),
        default=None,
    )
    return NO_FOLLOWER if nearest is None else nearest.broker_id
