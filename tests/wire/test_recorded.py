"""Recorded requests of real clients are decoded, and encoded to the same bytes."""

from __future__ import annotations

import os
from typing import Any

import pytest

from kraftlog.wire.apis import APIS
from kraftlog.wire.codec import decode, decode_part, encode
from kraftlog.wire.messages.headers import RequestHeader

APIS_BY_NAME = {api.name: api for api in APIS.values()}
TOPIC_ID = bytes(range(16))
BATCH_SIZE = 61 + 9  # header and the one record


def recorded() -> list[tuple[str, str, int, bytes]]:
    path = os.path.join(os.path.dirname(__file__), "recorded.txt")
    with open(path, encoding="ascii") as file:
        lines = [line.split() for line in file if not line.startswith("#")]
    return [
        (client_name, name, int(version), bytes.fromhex(raw))
        for client_name, name, version, raw in lines
    ]


FRAMES = recorded()


@pytest.mark.parametrize(
    ("client_name", "name", "version", "raw"), FRAMES, ids=[f"{f[0]}-{f[1]}-{f[2]}" for f in FRAMES]
)
def test_a_recorded_request_round_trips(
    client_name: str, name: str, version: int, raw: bytes
) -> None:
    api = APIS_BY_NAME[name]
    header, pos = decode_part(RequestHeader, api.request_header_version(version), raw)
    assert (header.request_api_key, header.request_api_version) == (api.key, version)
    assert (
        header.client_id
        == {"librdkafka": "rdkafka", "kafka-python": "kp", "aiokafka": "aio"}[client_name]
    )
    request = decode(api.request(), version, raw, pos)
    check_meaning(name, version, request)
    encoded = encode(header, api.request_header_version(version)) + encode(request, version)
    assert encoded == raw


def check_meaning(name: str, version: int, request: Any) -> None:
    """The request has the values that the recorded client was configured with."""
    if name == "Produce":
        [topic] = request.topic_data
        [data] = topic.partition_data
        assert (topic.name, data.index, len(data.records)) == ("orders", 0, BATCH_SIZE)
        assert bytes(data.records[-3:]) == b"\x02v\x00"
        assert request.acks in {1, -1}
    elif name == "Fetch":
        [topic] = request.topics
        [partition] = topic.partitions
        assert (topic.topic_id == TOPIC_ID) == (version >= 13) != (topic.topic == "orders")
        assert (partition.partition, partition.fetch_offset) == (0, 0)
        assert (request.max_wait_ms, partition.partition_max_bytes) == (500, 1 << 20)
    elif name == "ListOffsets":
        [topic] = request.topics
        assert (topic.name, topic.partitions[0].timestamp) == ("orders", -1)
    elif name == "FindCoordinator":
        assert request.key == "g" or request.coordinator_keys == ("g",)
    elif name == "InitProducerId":
        assert (request.transactional_id, request.producer_epoch) == (None, -1)
