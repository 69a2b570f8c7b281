"""Records of a cluster of one node, with some topics."""

from __future__ import annotations

from hashlib import md5
from typing import TYPE_CHECKING

from kraftlog.types import NULL_UUID
from kraftlog.wire.messages.metadata_records import (
    BrokerEndpoint,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kraftlog.types import Uuid
    from kraftlog.wire.schema import Message

PLAINTEXT = 0


def cluster_records(
    *, cluster_id: str, node_id: int, host: str, port: int, topics: Mapping[str, int]
) -> Iterator[Message]:
    """The records of a metadata log with this broker, and topics with these partition counts."""
    endpoint = BrokerEndpoint(name="PLAINTEXT", host=host, port=port, security_protocol=PLAINTEXT)
    yield RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=NULL_UUID,
        broker_epoch=0,
        end_points=[endpoint],
        features=(),
        rack=None,
        fenced=False,
    )
    for name, count in topics.items():
        topic_id = _topic_id(cluster_id, name)
        yield TopicRecord(name=name, topic_id=topic_id)
        for index in range(count):
            yield PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=(node_id,),
                isr=(node_id,),
                removing_replicas=(),
                adding_replicas=(),
                leader=node_id,
                leader_epoch=0,
                partition_epoch=0,
            )


def _topic_id(cluster_id: str, name: str) -> Uuid:
    return md5(f"{cluster_id}/{name}".encode(), usedforsecurity=False).digest()
