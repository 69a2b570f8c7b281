"""DescribeTransactions: the state of transactions."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int16, int32, int64, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class DescribeTransactionsRequest(Message, versions=(0, 0), flexible=0):
    transactional_ids: Sequence[str] = array("string")


class TopicData(Message):
    topic: str = string()
    partitions: Sequence[int] = array("int32")


class TransactionState(Message):
    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: Sequence[TopicData] = array(TopicData)


class DescribeTransactionsResponse(Message, versions=(0, 0), flexible=0):
    throttle_time_ms: int = int32(default=0)
    transaction_states: Sequence[TransactionState] = array(TransactionState)
