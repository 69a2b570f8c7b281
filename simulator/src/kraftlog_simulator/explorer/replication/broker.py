"""`Broker`: one broker with its disk, and the effect of one event on it.

A broker that has a number in a table (`cluster`) never changes: an event is applied to a copy.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kraftlog_simulator.explorer.replication.log import Log
from kraftlog_simulator.explorer.replication.objects import Objects
from kraftlog_simulator.explorer.replication.process import Process

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.replication.partition import Partition
    from kraftlog_simulator.explorer.replication.process import FetchMessage, FetchResponseMessage

#: By class, the fields that make no difference to the future of a broker: settings, statistics,
#: times (which stand still), request numbers, and lists that are empty after every event.
OMITTED = {
    "Process": frozenset(
        {"loader", "fetch_sessions", "_sent", "epoch", "effects", "messages", "has_slow_disk"}
    ),
    "ReplicaManager": frozenset(
        {
            "_metadata",
            "_topic_configs",
            "_node",
            "_emit",
            "topic_stats",
            "quotas",
            "by_log",
            "directory_assignments",
            "high_watermark_moves",
        }
    ),
    "ReplicaFetchers": frozenset({"_config", "_node", "_quota", "_requests_sent", "_in_flight"}),
    "Fetcher": frozenset(
        {
            "_config",
            "_node",
            "in_flight",
            "_due_ms",
            "_backoff_ms",
            "_must_reconnect",
        }
    ),
    "FollowedPartition": frozenset({"backoff_ms", "last_problem"}),
    "InSyncReplicas": frozenset(
        {"_metadata", "_check_due_ms", "_elected_ms", "_unfetched", "_node", "_moved"}
    ),
    "IsrChanges": frozenset(
        {"_due_ms", "_retry_ms", "_failures", "_incomplete", "_node", "_refused"}
    ),
    "Partition": frozenset({"counts", "append_config", "written_bytes"}),
    "Follower": frozenset({"caught_up_bytes", "fetched_bytes"}),
    "DelayedFetch": frozenset({"written_at_read", "node"}),
    "Reading": frozenset({"sent_bytes", "response", "size", "_node"}),
    "Reader": frozenset({"pending_positions"}),
    "DelayedFetches": frozenset({"_node"}),
    "DelayedDeletions": frozenset({"_node", "_metadata"}),
}
#: Values that are copied: they refer to copied objects, or change until they are sent.
COPIED_VALUES = (
    ProduceResponse,
    TopicProduceResponse,
    PartitionProduceResponse,
)
objects = Objects(COPIED_VALUES, OMITTED)


class Broker:
    """A broker: its log, and its process while it runs."""

    def __init__(self, broker_id: int, *, has_slow_disk: bool = False) -> None:
        self.id = broker_id
        self.has_slow_disk = has_slow_disk
        self.log = Log()
        #: Whether it lost records, and has not registered since.
        self.lost_records = False
        #: None while it is down.
        self.process: Process | None = None

    @property
    def partition(self) -> Partition | None:
        return None if self.process is None else self.process.partition

    @property
    def known_committed(self) -> tuple[bytes, ...]:
        """The batches that it reports as committed."""
        partition = self.partition
        return () if partition is None else self.log.batches[: partition.high_watermark]


class Step(Value):
    """The broker after an event, and the messages that it sent."""

    broker: Broker
    sent: tuple[FetchMessage | FetchResponseMessage, ...]


def step(broker: Broker, event: str, arguments: tuple[Any, ...] = ()) -> Step:
    """Apply an event to a copy of a broker."""
    after: Broker = objects.copy(broker)
    if event == "crash":
        kept, after.log.stored_high_watermark = arguments
        after.lost_records = kept < after.log.end
        after.log.truncate(kept)
        after.process = None
        return Step(after, ())
    process = after.process
    if event == "restart":
        epoch, metadata = arguments
        after.lost_records = False
        after.process = process = Process(
            after.id, epoch, after.log, has_slow_disk=after.has_slow_disk
        )
        process.start(metadata)
    else:
        assert process is not None, f"a broker must run for the event {event!r}"
        getattr(process, event)(*arguments)
        process.turn()
    sent, process.messages = tuple(process.messages), []
    return Step(after, sent)


def broker_key(broker: Broker) -> Any:
    process = broker.process
    log = broker.log.topic_id, broker.log.batches
    stored = broker.log.stored_high_watermark
    if process is None:
        return broker.id, log, stored, broker.lost_records
    image = process.image
    image_key = objects.key((image.brokers, image.partitions))
    return broker.id, log, stored, image_key, objects.key(process)
