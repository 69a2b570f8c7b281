"""Kafka's image, after replaying our log, equals ours."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

from kraftlog.metadata.image import Image
from kraftlog.metadata.versions import record_version
from kraftlog.wire.messages.metadata_records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    ProducerIdsRecord,
)
from kraftlog.wire.record_frames import decode_metadata, encode_metadata
from tests.controller.scenario import random_cluster
from tests.metadata.samples import SNAPSHOT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraftlog.wire.schema import Message
    from tests.interop.driver import Driver

#: How many random clusters' logs are replayed, besides the sample.
RANDOM_LOGS = 60


def frames_of(records: Iterable[Message]) -> list[bytes]:
    return [encode_metadata(record, record_version(record)) for record in records]


def normalized(record: bytes) -> tuple[bytes, str]:
    """A record without what Kafka's image drops: the order of lists, the owner of producer ids."""
    message = decode_metadata(record)[0]
    features = getattr(message, "features", None)
    if features is not None:
        message = message.replace(features=sorted(features, key=lambda each: each.name))
    entity = getattr(message, "entity", None)
    if entity is not None:
        message = message.replace(entity=sorted(entity, key=lambda each: each.entity_type))
    if isinstance(message, ProducerIdsRecord):
        message = message.replace(broker_id=-1, broker_epoch=-1)
    return record[:2], repr(message)


def test_kafka_replays_the_same_image(jvm: Driver) -> None:
    logs: list[list[Message]] = [list(SNAPSHOT)]
    # In Kafka the metadata loader handles transactions; the image never gets these records.
    transaction_records = (BeginTransactionRecord, EndTransactionRecord)
    logs += [
        [
            record
            for record in random_cluster(seed).log
            if not isinstance(record, transaction_records)
        ]
        for seed in range(RANDOM_LOGS)
    ]
    encoded_logs = [[b64encode(record).decode() for record in frames_of(log)] for log in logs]
    result = jvm.tool("ImageOracle", stdin=json.dumps(encoded_logs).encode()).ok()
    for log, theirs in zip(logs, json.loads(result.stdout), strict=True):
        image = Image()
        for record in log:
            image.replay(record)
        ours = sorted(map(normalized, frames_of(image.records())))
        assert ours == sorted(normalized(b64decode(record)) for record in theirs)
    assert sum(map(len, logs)) > 1000
