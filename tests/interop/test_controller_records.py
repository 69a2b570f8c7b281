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
    # Kafka keeps kraftlog's tagged fields, such as that of a removed partition, as unknown ones.
    assert any(getattr(record, "removed", False) for record in cluster.log)
    assert [each.encoded_again for each in read] == written
    assert {type(record).__name__ for record in cluster.log} == RECORD_TYPES


#: Every type of record that the controller writes.
RECORD_TYPES = {
    "AccessControlEntryRecord",
    "RemoveAccessControlEntryRecord",
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
