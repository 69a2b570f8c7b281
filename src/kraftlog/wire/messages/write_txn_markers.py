"""WriteTxnMarkers: the coordinator writes transaction markers to partitions."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int8, int16, int32, int64, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class WritableTxnMarkerTopic(Message):
    name: str = string()
    partition_indexes: Sequence[int] = array("int32")


class WritableTxnMarker(Message):
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: Sequence[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8(since=2, default=0, ignorable=True)


class WriteTxnMarkersRequest(Message, versions=(1, 2), flexible=1):
    markers: Sequence[WritableTxnMarker] = array(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Message):
    partition_index: int = int32()
    error_code: int = int16()


class WritableTxnMarkerTopicResult(Message):
    name: str = string()
    partitions: Sequence[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


class WritableTxnMarkerResult(Message):
    producer_id: int = int64()
    topics: Sequence[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


class WriteTxnMarkersResponse(Message, versions=(1, 2), flexible=1):
    markers: Sequence[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
