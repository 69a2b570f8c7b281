"""What changes of settings do to eligible leader replicas (ELR): as little as is safe (V21).

An eligible replica has every committed record, because the high watermark does not move while the
ISR is below min.insync.replicas. Once a leader may commit without it, it is no longer eligible. A
partition without a leader commits nothing, so its eligible replicas and its last known leader stay,
whatever the settings: they are the only way back.

Kafka clears all of them on each such change, and a partition without a leader stays without one.
"""

from __future__ import annotations

from kraftlog.controller.partition_change import PartitionChanges, PartitionTarget
from kraftlog.metadata.values import NO_LEADER
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.metadata_records import ClearElrRecord, PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Generator

    from kraftlog.controller.state import ControllerState, MinIsrChanges
    from kraftlog.wire.schema import Message

#: Cost of a partition, in microseconds.
PARTITION_COST = 15


def change_min_isr(
    state: ControllerState, changed: MinIsrChanges
) -> Generator[int, None, list[Message]]:
    """Clear the ELR of partitions whose leader has the new min.insync.replicas in sync."""
    records: list[Message] = []
    changes = PartitionChanges(state)
    for key in sorted({key for keys in state.index.in_elr.values() for key in keys}):
        partition = state.partitions[key]
        min_isr = state.min_isr(partition, changed)
        if partition.leader != NO_LEADER and len(partition.isr) >= min_isr:
            record = changes.record(partition, PartitionTarget(min_isr=min_isr))
            if record is not None:
                records.append(record)
        yield PARTITION_COST
    return records


def disable_elr(state: ControllerState) -> list[Message]:
    """Clear every ELR, as leaders commit below the minimum from now on.

    Without ELR, the last ISR is the way back to a leader. So the eligible replicas of a partition
    without ISR, or else its last known leader, become its ISR.
    """
    records: list[Message] = []
    for key in sorted(state.index.leaderless):
        partition = state.partitions[key]
        isr = partition.isr or partition.elr or partition.last_known_elr
        if isr != partition.isr:
            records.append(PartitionChangeRecord(partition_id=key[1], topic_id=key[0], isr=isr))
    return [*records, ClearElrRecord(topic_name="")]
