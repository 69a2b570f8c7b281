"""Produce 3-13: validates batches and appends them to their partitions.

acks=0 gets no response, and an error closes the connection; acks=1 waits for the leader's write,
acks=all (-1) for the high watermark. Versions from 13 on name topics by id. A duplicate batch gets
the offset of the first copy. Transactions are not supported: their batches get INVALID_TXN_STATE.
"""

from __future__ import annotations

from struct import Struct

from kraftlog.errors import (
    CorruptBatchError,
    ErrorCode,
    RejectedRecordsError,
    UnansweredError,
    error_name,
)
from kraftlog.metadata.values import is_internal
from kraftlog.node.leaders import add_leader_endpoint, leader_of
from kraftlog.records.header import (
    HEADER_SIZE,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
    stamp_append_time,
    stamp_max_timestamp,
)
from kraftlog.records.plain_batch import (
    LAST_OFFSET_DELTA,
    MAX_TIMESTAMP,
    PRODUCER_ID,
    plain_fields,
)
from kraftlog.records.repack import repack
from kraftlog.records.validate import check_produced, check_records, check_records_in_steps
from kraftlog.replication.partition import ACKS_ALL, ACKS_LEADER, ACKS_NONE, WRITTEN_IS_ENOUGH
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.records.validate import ProduceRules
    from kraftlog.replication.append_config import AppendConfig
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Now
    from kraftlog.wire.messages.produce import (
        PartitionProduceData,
        ProduceRequest,
        TopicProduceData,
    )

    #: Result of checking the records of a partition's data, by its `id()`: the maximum timestamp
    #: or the error.
    Checked = dict[int, int | CorruptBatchError]

#: The first version that names topics by id.
BY_ID_SINCE = 13
#: The first version with zstd.
ZSTD_SINCE = 7
#: The first version whose errors name the leader.
LEADERS_SINCE = 10
#: A batch with more records is checked in slices, if its records have to be checked.
MANY_RECORDS = 2_000
#: The number of records, at the end of a batch's header.
_COUNT = Struct(">i")
#: At most this many partitions with errors are named in the log.
MAX_LOGGED_ERRORS = 5
#: Instead of a base offset: the batch is not appended.
NOT_APPENDED = -1
ACKS = frozenset((ACKS_NONE, ACKS_LEADER, ACKS_ALL))


def handle(
    node: ServingNode, pending: PendingResponse, request: ProduceRequest, now: Now
) -> Iterator[int] | None:
    if _needs_slices(node, pending, request):
        for topic in request.topic_data:
            for part in topic.partition_data:
                if part.records is not None:  # copy: the receive buffer is reused
                    part.records = memoryview(bytearray(part.records))
        return _check_and_append(node, pending, request)
    _append(node, pending, request, {}, now)
    return None


def _needs_slices(node: ServingNode, pending: PendingResponse, request: ProduceRequest) -> bool:
    """Whether a batch with many records has to be decompressed and checked."""
    return any(
        part.records is not None
        and len(part.records) >= HEADER_SIZE
        and _COUNT.unpack_from(part.records, HEADER_SIZE - _COUNT.size)[0] > MANY_RECORDS
        and (rules := _rules_of(node, pending, topic, part)) is not None
        and rules.needs_record_checks
        for topic in request.topic_data
        for part in topic.partition_data
    )


def _rules_of(
    node: ServingNode, pending: PendingResponse, topic: TopicProduceData, part: PartitionProduceData
) -> ProduceRules | None:
    partition = node.replica_manager.partition(
        topic.name, topic.topic_id, part.index, pending.version >= BY_ID_SINCE
    )
    if isinstance(partition, int):
        return None
    return rules_for(partition.append_config, pending.version)


def rules_for(append_config: AppendConfig, version: int) -> ProduceRules:
    return append_config.rules if version >= ZSTD_SINCE else append_config.rules_before_zstd


def _check_and_append(
    node: ServingNode, pending: PendingResponse, request: ProduceRequest
) -> Iterator[int]:
    """Check the records in slices, then append all batches at once."""
    checked: Checked = {}
    for topic in request.topic_data:
        for part in topic.partition_data:
            rules = _rules_of(node, pending, topic, part)
            if part.records is None or rules is None or not rules.needs_record_checks:
                continue
            now_ms = node.now.wall_ms
            try:
                header = check_produced(part.records, rules, now_ms)
                checking = check_records_in_steps(part.records, header, rules, now_ms)
                checked[id(part)] = yield from checking
            except CorruptBatchError as error:
                checked[id(part)] = error
    _append(node, pending, request, checked, node.now)


def _append(
    node: ServingNode, pending: PendingResponse, request: ProduceRequest, checked: Checked, now: Now
) -> None:
    pending.waits = 1  # this handler: the response must be complete before it is sent
    pending.response = response = ProduceResponse(responses=())
    response.responses = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[
                _produce(node, pending, request, topic, part, checked, now)
                for part in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    pending.waits -= 1
    if node.client_quotas.is_active:
        response.throttle_time_ms = node.client_quotas.produced(pending)
    if request.acks == ACKS_NONE:
        _close_if_refused(pending, response)
        pending.respond_nothing()
    elif not pending.waits:
        pending.respond(pending.response)


def _close_if_refused(pending: PendingResponse, response: ProduceResponse) -> None:
    """With acks=0 a closed connection is the only way to make the producer refresh metadata."""
    refused = [
        f"{topic.name or uuid_text(topic.topic_id)}-{part.index} {error_name(part.error_code)}"
        for topic in response.responses
        for part in topic.partition_responses
        if part.error_code
    ]
    if refused:
        errors = ", ".join(refused[:MAX_LOGGED_ERRORS])
        pending.connection.fail(UnansweredError(f"Produce with acks=0 is refused: {errors}"))


def _produce(
    node: ServingNode,
    pending: PendingResponse,
    request: ProduceRequest,
    topic: TopicProduceData,
    part: PartitionProduceData,
    checked: Checked,
    now: Now,
) -> PartitionProduceResponse:
    partition = node.replica_manager.partition(
        topic.name, topic.topic_id, part.index, pending.version >= BY_ID_SINCE
    )
    if isinstance(partition, int):
        return _refused_by_broker(node, pending, topic, part.index, partition)
    acks = request.acks
    counts = partition.counts
    counts.produces += 1
    code = _error_code(partition, acks)
    if code:
        counts.failed_produces += 1
        return _refused_by_broker(node, pending, topic, part.index, code)
    if part.records is None:
        return _refused(part.index, ErrorCode.INVALID_RECORD, "no records")
    append_config = partition.append_config
    rules = rules_for(append_config, pending.version)
    batch = memoryview(part.records)
    if append_config.stores_as_produced:
        base = _append_plain(node, partition, batch, rules, now)
        if base != NOT_APPENDED:
            return _appended(pending, request, partition, base, NO_TIMESTAMP)
    check_result = checked.get(id(part))
    return _append_checked(node, pending, request, partition, batch, rules, check_result, now)


def _append_checked(
    node: ServingNode,
    pending: PendingResponse,
    request: ProduceRequest,
    partition: Partition,
    batch: memoryview,
    rules: ProduceRules,
    check_result: int | CorruptBatchError | None,
    now: Now,
) -> PartitionProduceResponse:
    """Check a batch, apply the topic config and append it.

    `check_result` is the result for its records (see `Checked`), None if still unchecked.
    """
    append_config = partition.append_config
    try:
        header = check_produced(batch, rules, now.wall_ms)
        if rules.needs_record_checks:
            if isinstance(check_result, CorruptBatchError):
                raise check_result
            max_timestamp = (
                check_records(batch, header, rules, now.wall_ms)
                if check_result is None
                else check_result
            )
            if max_timestamp != header.max_timestamp:
                stamp_max_timestamp(batch, 0, max_timestamp)
                header = read_header(batch)
        if header.producer_id >= 0:
            code = _producer_error(partition, header)
            if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                return _duplicate(node, pending, request, partition, header)
            if code:
                return _refused(partition.index, code)
        if rules.has_log_append_time or append_config.must_repack(header.codec):
            batch, header = _apply_topic_config(batch, header, append_config, now)
    except CorruptBatchError as error:
        partition.counts.failed_produces += 1
        return _invalid_batch(partition.index, error)
    base = partition.append(header, batch, node.replica_manager.turn)
    append_time_ms = now.wall_ms if rules.has_log_append_time else NO_TIMESTAMP
    return _appended(pending, request, partition, base, append_time_ms)


def _append_plain(
    node: ServingNode, partition: Partition, batch: memoryview, rules: ProduceRules, now: Now
) -> int:
    """Append a batch that needs only a check of its header; returns its base offset.

    `NOT_APPENDED`: the full checks decide whether it is valid.
    """
    fields = plain_fields(batch, 0, len(batch), rules, now.wall_ms)
    if fields is None:
        return NOT_APPENDED
    base, turn = partition.end, node.replica_manager.turn
    if fields[PRODUCER_ID] < 0:
        partition.add(batch, fields[LAST_OFFSET_DELTA], fields[MAX_TIMESTAMP], turn)
        return base
    header = BatchHeader(*fields)
    if partition.check_producer(header):
        return NOT_APPENDED
    return partition.append(header, batch, turn)


def _appended(
    pending: PendingResponse,
    request: ProduceRequest,
    partition: Partition,
    base: int,
    append_time_ms: int,
) -> PartitionProduceResponse:
    """The result of a batch that is appended; the response waits until it is durable enough."""
    result = PartitionProduceResponse(
        index=partition.index,
        error_code=ErrorCode.NONE,
        base_offset=base,
        log_append_time_ms=append_time_ms,
        log_start_offset=partition.start,
    )
    if request.acks != ACKS_NONE:
        # As `ReplicaManager.wait_for`, but the largest offset goes to the end, without a search.
        pending.waits += 1
        partition.acks.append((partition.end, pending, result, timeout_ms(request)))
    return result


def _error_code(partition: Partition, acks: int) -> int:
    if not partition.online:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if is_internal(partition.topic):
        return ErrorCode.INVALID_TOPIC_EXCEPTION  # only coordinators write to internal topics
    if acks not in ACKS:
        return ErrorCode.INVALID_REQUIRED_ACKS
    if acks == ACKS_ALL and partition.lacks_replicas:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return ErrorCode.NONE


def _producer_error(partition: Partition, header: BatchHeader) -> int:
    if header.is_transactional:
        # Transactions are not supported, so no producer can be in one.
        return ErrorCode.INVALID_TXN_STATE
    return partition.check_producer(header)


def _duplicate(
    node: ServingNode,
    pending: PendingResponse,
    request: ProduceRequest,
    partition: Partition,
    header: BatchHeader,
) -> PartitionProduceResponse:
    """Respond to a duplicate batch with the first copy's offset, once that copy is acknowledged."""
    first = partition.duplicate_of(header)
    result = PartitionProduceResponse(
        index=partition.index,
        error_code=ErrorCode.NONE,
        base_offset=first.first_offset,
        log_append_time_ms=(
            first.timestamp if partition.append_config.rules.has_log_append_time else NO_TIMESTAMP
        ),
        log_start_offset=partition.start,
    )
    needed = first.last_offset + 1
    wait_ms = timeout_ms(request)
    if request.acks != ACKS_NONE and not partition.is_reached(needed, wait_ms):
        node.replica_manager.wait_for(partition, needed, pending, result, wait_ms)
    return result


def _apply_topic_config(
    batch: memoryview, header: BatchHeader, append_config: AppendConfig, now: Now
) -> tuple[memoryview, BatchHeader]:
    """Apply compression.type and LogAppendTime of the topic."""
    rules = append_config.rules
    if append_config.must_repack(header.codec):
        batch = memoryview(repack(batch, header, append_config.codec, append_config.level))
        if len(batch) > min(rules.max_batch_size, rules.segment_size):
            raise CorruptBatchError(
                f"the batch has {len(batch)} bytes after recompression by compression.type, "
                f"the maximum is {rules.max_batch_size}",
                code=ErrorCode.MESSAGE_TOO_LARGE,
            )
    if rules.has_log_append_time:
        stamp_append_time(batch, 0, now.wall_ms)
    return batch, read_header(batch)


def timeout_ms(request: ProduceRequest) -> int:
    """How long to wait for other replicas; `WRITTEN_IS_ENOUGH` without acks=all."""
    return max(0, request.timeout_ms) if request.acks == ACKS_ALL else WRITTEN_IS_ENOUGH


def _refused_by_broker(
    node: ServingNode, pending: PendingResponse, topic: TopicProduceData, index: int, code: int
) -> PartitionProduceResponse:
    """An error response; NOT_LEADER_OR_FOLLOWER names the current leader (KIP-951)."""
    result = _refused(index, code)
    if code == ErrorCode.NOT_LEADER_OR_FOLLOWER and pending.version >= LEADERS_SINCE:
        leader, epoch = leader_of(node.image, topic.name, topic.topic_id, index)
        result.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
        add_leader_endpoint(node, pending, leader, pending.response, NodeEndpoint)
    return result


def _invalid_batch(index: int, error: CorruptBatchError) -> PartitionProduceResponse:
    """An error response that names the invalid records, so that a client can resend the others."""
    result = _refused(index, error.code, error.what)
    if isinstance(error, RejectedRecordsError):
        result.record_errors = [
            BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=why)
            for number, why in error.rejected
        ]
    return result


def _refused(index: int, code: int, why: str | None = None) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=code, base_offset=-1, error_message=why)
