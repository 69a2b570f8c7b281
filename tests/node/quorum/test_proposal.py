"""A proposal encodes each record as if it were encoded separately."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import UnwritableError
from kraftlog.metadata.versions import record_version
from kraftlog.node.quorum.proposal import Proposal
from kraftlog.steps import result_of
from kraftlog.wire.messages.metadata_records import NoOpRecord, PartitionChangeRecord
from kraftlog.wire.record_frames import encode_metadata, metadata_read_back

TOPIC = bytes(range(16))


def change(index: int, topic_id: bytes = TOPIC, **fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=index, topic_id=topic_id, **fields)


def test_similar_changes_are_encoded_as_if_separately() -> None:
    records = [
        change(0, isr=(2, 3), leader=2),
        change(1, isr=(2, 3), leader=2),
        change(2, isr=(2, 3)),
        NoOpRecord(),
        change((1 << 31) - 1, isr=(2, 3), leader=2),
        change(3, bytes(16), isr=(2, 3), leader=2),
        change(4, isr=[2, 3], leader=2),
        change(5, isr=(2, 3), directories=(TOPIC, TOPIC)),
        change(6, isr=(2, 3), directories=(TOPIC, TOPIC)),
        change(7, isr=(), eligible_leader_replicas=(1,), last_known_elr=(1,), leader=-1),
        change(8, isr=(), eligible_leader_replicas=(1,), last_known_elr=(1,), leader=-1),
    ]
    proposal = result_of(Proposal.make_in_steps(records, 0))
    assert proposal.values == [encode_metadata(it, record_version(it)) for it in records]
    assert proposal.records == [metadata_read_back(it, record_version(it))[1] for it in records]
    assert proposal.size_bytes == sum(map(len, proposal.values))


@pytest.mark.parametrize("bad", [change(1 << 31, leader=2), change(2, b"short", leader=2)])
def test_an_unwritable_change_is_refused_after_a_similar_one(
    bad: PartitionChangeRecord,
) -> None:
    with pytest.raises(UnwritableError):
        result_of(Proposal.make_in_steps([change(1, leader=2), bad], 0))
