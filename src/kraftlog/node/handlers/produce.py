"""Produce 3-13: valid batches go to their partitions, the answer waits for what acks ask for.

acks 0 is not answered; 1 waits for the leader's write, -1 (all) for the high watermark. Topics are
named by id from version 13 on. Missing: idempotent and transactional producers' state.
"""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError, ErrorCode
from kraftlog.records.validate import ProduceRules, check_produced
from kraftlog.replication.partition import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from kraftlog.node.node import Node
    from kraftlog.node.slots import Slot
    from kraftlog.types import Now
    from kraftlog.wire.messages.produce import (
        PartitionProduceData,
        ProduceRequest,
        TopicProduceData,
    )

BY_ID_SINCE = 13
ZSTD_SINCE = 7

_RULES = ProduceRules()
_RULES_BEFORE_ZSTD = ProduceRules(allows_zstd=False)


def handle(node: Node, slot: Slot, request: ProduceRequest, now: Now) -> None:
    slot.waits = 1  # this handler itself: the answer may not leave before it is complete
    slot.response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    _produce(node, slot, request.acks, topic, part, now)
                    for part in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
    slot.waits -= 1
    if request.acks == ACKS_NONE:
        slot.answer_nothing()
    elif not slot.waits:
        slot.answer(slot.response)


def _produce(
    node: Node,
    slot: Slot,
    acks: int,
    topic: TopicProduceData,
    part: PartitionProduceData,
    now: Now,
) -> PartitionProduceResponse:
    partition = node.partition(topic.name, topic.topic_id, part.index, slot.version >= BY_ID_SINCE)
    if isinstance(partition, int):
        return _refused(part.index, partition)
    code = partition.refusal(-1)
    if code:
        return _refused(part.index, code)
    if acks not in {ACKS_NONE, ACKS_LEADER, ACKS_ALL}:
        return _refused(part.index, ErrorCode.INVALID_REQUIRED_ACKS)
    rules = _RULES if slot.version >= ZSTD_SINCE else _RULES_BEFORE_ZSTD
    if part.records is None:
        return _refused(part.index, ErrorCode.INVALID_RECORD, "no records")
    try:
        header = check_produced(part.records, rules, now.wall_ms)
    except CorruptBatchError as error:
        return _refused(part.index, error.code, error.what)
    base = partition.append(header, memoryview(part.records), node.turn)
    told = PartitionProduceResponse(
        index=part.index,
        error_code=ErrorCode.NONE,
        base_offset=base,
        log_start_offset=partition.start,
    )
    if acks != ACKS_NONE:
        slot.waits += 1
        partition.acks.append((partition.end, slot, told))
    return told


def _refused(index: int, code: int, why: str | None = None) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=code, base_offset=-1, error_message=why)
