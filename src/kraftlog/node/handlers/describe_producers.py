"""DescribeProducers 0: who has written to a partition and is remembered for it."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from kraftlog.node.node import Node
    from kraftlog.node.slots import Slot
    from kraftlog.types import Now
    from kraftlog.wire.messages.describe_producers import DescribeProducersRequest


def handle(node: Node, slot: Slot, request: DescribeProducersRequest, now: Now) -> None:  # noqa: ARG001 - every handler is called alike
    slot.answer(
        DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name=topic.name,
                    partitions=[
                        _described(node, topic.name, index) for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics
            ]
        )
    )


def _described(node: Node, topic: str, index: int) -> PartitionResponse:
    partition = node.partition(topic, NULL_UUID, index, by_id=False)
    code = partition if isinstance(partition, int) else partition.refusal(-1)
    if code or isinstance(partition, int):
        is_known = topic in node.image.topic_ids
        why = None if is_known else "This server does not host this topic-partition."
        return PartitionResponse(
            partition_index=index, error_code=code, error_message=why, active_producers=()
        )
    known = {} if partition.producers is None else partition.producers.entries
    return PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.NONE,
        active_producers=[
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.transaction_start,
            )
            for entry in known.values()
        ],
    )
