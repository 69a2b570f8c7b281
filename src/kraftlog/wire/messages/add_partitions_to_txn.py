"""AddPartitionsToTxn: add partitions to a transaction; several transactions from version 4."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int16, int32, int64, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class AddPartitionsToTxnTopic(Message):
    name: str = string()
    partitions: Sequence[int] = array("int32")


class AddPartitionsToTxnTransaction(Message):
    transactional_id: str = string(since=4, default="")
    producer_id: int = int64(since=4, default=0)
    producer_epoch: int = int16(since=4, default=0)
    verify_only: bool = boolean(since=4, default=False)
    topics: Sequence[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, since=4, default=())


class AddPartitionsToTxnRequest(Message, versions=(0, 5), flexible=3):
    transactions: Sequence[AddPartitionsToTxnTransaction] = array(
        AddPartitionsToTxnTransaction, since=4, default=()
    )
    v3_and_below_transactional_id: str = string(until=3, default="")
    v3_and_below_producer_id: int = int64(until=3, default=0)
    v3_and_below_producer_epoch: int = int16(until=3, default=0)
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = array(
        AddPartitionsToTxnTopic, until=3, default=()
    )


class AddPartitionsToTxnPartitionResult(Message):
    partition_index: int = int32()
    partition_error_code: int = int16()


class AddPartitionsToTxnTopicResult(Message):
    name: str = string()
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult
    )


class AddPartitionsToTxnResult(Message):
    transactional_id: str = string(since=4, default="")
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, since=4, default=()
    )


class AddPartitionsToTxnResponse(Message, versions=(0, 5), flexible=3):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(since=4, default=0, ignorable=True)
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = array(
        AddPartitionsToTxnResult, since=4, default=()
    )
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, until=3, default=()
    )
