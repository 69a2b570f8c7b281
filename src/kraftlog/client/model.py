"""The data types that the client returns."""

from __future__ import annotations

from kraftlog.records.record import Record
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.describe_topic_partitions import (
        DescribeTopicPartitionsResponsePartition,
    )
    from kraftlog.wire.messages.metadata import MetadataResponsePartition

NO_LEADER = -1


class Broker(Value):
    id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


class Partition(Value):
    """A partition; `leader` is -1 if there is none."""

    topic: str
    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    #: None if read from a Metadata response, which lacks it.
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


def partition_from_response(
    topic: str,
    result: MetadataResponsePartition | DescribeTopicPartitionsResponsePartition,
) -> Partition:
    """A partition from a Metadata or DescribeTopicPartitions response."""
    return Partition(
        topic,
        result.partition_index,
        result.leader_id,
        result.leader_epoch,
        tuple(result.replica_nodes),
        tuple(result.isr_nodes),
        tuple(result.offline_replicas),
    )


class Topic(Value):
    name: str
    is_internal: bool
    partitions: tuple[Partition, ...]
    id: Uuid = NULL_UUID


class ConsumedRecord(Record):
    """A record and its partition; the fields of `Record` come first."""

    topic: str = ""
    partition: int = -1
    leader_epoch: int = -1
    has_log_append_time: bool = False


class FoundOffset(Value):
    """The result of an offset lookup; offset and timestamp are -1 if there is none."""

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


#: A partition is named by topic and index.
PartitionName = tuple[str, int]


def parse_servers(text: str) -> list[tuple[str, int]]:
    """Parse `host:port,host:port`; the default port is 9092."""
    servers = []
    for item in text.split(","):
        host, colon, port = item.strip().rpartition(":")
        if not colon or port.endswith("]"):
            host, port = item.strip(), "9092"
        if not host or "://" in item or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{item.strip()!r}: expected host:port")
        servers.append((host.strip("[]"), int(port)))
    return servers
