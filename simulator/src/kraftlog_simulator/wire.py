"""Messages as bytes: encoded as Kafka's requests and responses, and decoded.

So a follower's simulated host summarizes batches of records, as a real host does. The payloads of
the batches are replaced by the objects that were encoded, so that logs can be compared.
"""

from __future__ import annotations

from kraftlog.node.quorum.batches import control_batch, summaries, voters_in
from kraftlog.node.quorum.requests import (
    VERSIONS,
    only_partition,
    request_from_wire,
    request_to_wire,
)
from kraftlog.node.quorum.responses import response_from_wire, response_to_wire
from kraftlog.raft.messages import Batch, FetchResult, LeaderChange, SnapshotChunk
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.control import decode_control_key
from kraftlog.records.header import CONTROL_BIT
from kraftlog.records.reader import read_records
from kraftlog.types import ControlType
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.codec import decode, encode
from kraftlog.wire.messages import control_records as control

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.types import Buffer

    #: A requester's id, its incarnation, and the number of the request.
    Key = tuple[int, int, int]

#: The records of all runs have the same timestamp.
TIMESTAMP_MS = 0


class Wire:
    """Encodes and decodes messages; a response needs its request, so requests are kept."""

    def __init__(self) -> None:
        self._requests: dict[Key, tuple[int, Any]] = {}

    def request(self, key: Key, body: Any) -> Any:
        api_key, request = request_to_wire(body)
        self._requests[key] = api_key, body
        decoded = decode(type(request), VERSIONS[api_key], encode(request, VERSIONS[api_key]))
        return request_from_wire(api_key, decoded)

    def response(self, key: Key, body: Any, damage: Callable[[bytes], bytes] | None = None) -> Any:
        """The response as it is decoded; `damage` changes the bytes of its records or its chunk."""
        api_key, request = self._requests[key]
        data = data_in(body)
        response = response_to_wire(body, damage(data) if damage is not None else data)
        version = VERSIONS[api_key]
        decoded: Any = decode(type(response), version, encode(response, version))
        result = response_from_wire(decoded, request)
        if isinstance(result, FetchResult) and not decoded.error_code:
            records = only_partition(decoded.responses).records
            result.batches = tuple([decode_payload(batch) for batch in summaries(records or b"")])
        return result


def data_in(body: Any) -> bytes:
    """The record batches of a fetch response, or the bytes of a snapshot chunk."""
    if isinstance(body, FetchResult):
        return b"".join([encode_batch(batch) for batch in body.batches])
    return body.data or b"" if isinstance(body, SnapshotChunk) else b""


def encode_batch(batch: Batch) -> bytes:
    if not isinstance(batch.payload, int):
        return control_batch(batch, TIMESTAMP_MS)
    builder = BatchBuilder(base_offset=batch.base_offset, leader_epoch=batch.epoch)
    builder.append(TIMESTAMP_MS, None, str(batch.payload).encode())
    return builder.build()


def decode_payload(batch: Batch) -> Batch:
    """Replace the bytes of a batch by the payload that was encoded."""
    batch.payload = payload_in(batch.payload, is_control=is_control(batch))
    return batch


def is_control(batch: Batch) -> bool:
    """Whether the batch's attributes mark it as a control batch."""
    return bool(batch.payload[22] & CONTROL_BIT)  # the low byte of the attributes


def payload_in(data: Buffer, *, is_control: bool) -> Any:
    """The payload of a batch: a client's value, or what a control record says."""
    for record in read_records(data):
        assert record.value is not None, "values are never null here"
        if not is_control:
            return int(record.value)
        if decode_control_key(record.key) == ControlType.LEADER_CHANGE:
            leader_change = decode(control.LeaderChangeMessage, 0, record.value)
            return LeaderChange(
                leader_change.leader_id,
                tuple([voter.voter_id for voter in leader_change.voters]),
                tuple([voter.voter_id for voter in leader_change.granting_voters]),
                voters_in(data),
            )
        return "voters", voters_in(data)
    raise AssertionError("a batch has records")
