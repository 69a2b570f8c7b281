"""Kafka reads every record of the controller, and encodes it to the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.metadata.versions import record_version
from kraftlog.wire.record_frames import encode_metadata
from tests.controller.scenario import eventful_cluster

if TYPE_CHECKING:
    from tests.interop.driver import Driver


def test_kafka_reads_what_the_controller_writes(jvm: Driver) -> None:
    cluster = eventful_cluster()
    snapshot = list(cluster.committed.records())
    written = [
        encode_metadata(record, record_version(record)) for record in (*cluster.log, *snapshot)
    ]
    read = jvm.decode([("metadata", 0, value) for value in written])
    assert [each.error for each in read if each.error] == []
    # Kafka skips kraftlog's tagged fields when it decodes a record, and encodes them again.
    removed = [n for n, record in enumerate(cluster.log) if getattr(record, "removed", False)]
    assert removed
    encoded_again = [each.encoded_again for each in read]
    assert [a for a, w in zip(encoded_again, written, strict=True) if a != w] == []
    assert {type(record).__name__ for record in cluster.log} == EMITTED


EMITTED = {
    "AbortTransactionRecord",
    "ClearElrRecord",
    "ProducerIdsRecord",
    "RegisterControllerRecord",
    "RemoveTopicRecord",
    "UnregisterBrokerRecord",
    "BeginTransactionRecord",
    "BrokerRegistrationChangeRecord",
    "ConfigRecord",
    "EndTransactionRecord",
    "FeatureLevelRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "RegisterBrokerRecord",
    "TopicRecord",
}
