"""The clean-shutdown manifest: the state of every log when the directory was closed.

With the manifest a log opens without reading its indexes, checkpoints, snapshots or topic id. Its
folder is listed only if it was modified after the manifest was written. Kafka has no such file.
A manifest is valid only with the marker `.kafka_cleanshutdown` that was written with it: kraftlog's
marker has the manifest's checksum, Kafka's has none. Both files are deleted before anything in the
directory changes.

The manifest has one line per log: topic, partition and a JSON object, the row.
"""

from __future__ import annotations

import binascii

from kraftlog.errors import CorruptLogError
from kraftlog.logstate.epochs import EpochCache
from kraftlog.logstate.producers import RetainedBatch
from kraftlog.records.crc import crc32c
from kraftlog.storage.log import Log
from kraftlog.storage.producer_snapshots import decode_snapshot, encode_snapshot
from kraftlog.storage.producer_tracker import ProducerTracker
from kraftlog.storage.segment import INDEX, LOG, TIME_INDEX, Segment
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from kraftlog.storage.config import LogConfig
    from kraftlog.storage.disk import Disk
    from kraftlog.types import LogName, Uuid

MANIFEST = "kraftlog-manifest"
CLEAN_MARKER = ".kafka_cleanshutdown"
_CHECKSUM_KEY = "kraftlogManifest"
_HEAD = b"kraftlog manifest 1\n"


def encode_row(log: Log) -> bytes:
    """Encode what a closed log needs to open again."""
    import json

    row: dict[str, object] = {
        "start": log.start_offset,
        "end": log.end_offset,
        "segments": [
            [
                segment.base_offset,
                segment.size,
                segment.max_timestamp,
                segment.max_timestamp_offset,
                segment.first_timestamp,
            ]
            for segment in log.segments
        ],
    }
    if log.epochs.epochs:
        row["epochs"] = log.epochs.entries()
    if log.topic_id != NULL_UUID:
        row["topic"] = log.topic_id.hex()
    if log.first_leader_epoch:
        row["first_epoch"] = log.first_leader_epoch
    if log.tracker.snapshots:
        row["snapshots"] = log.tracker.snapshots
        producers = encode_snapshot(log.producers)
        row["producers"] = binascii.b2a_base64(producers, newline=False).decode()
        # A snapshot has one batch per producer, but a client may retry any of the last five.
        row["batches"] = [
            [entry.producer_id, [batch.__getstate__() for batch in entry.batches]]
            for entry in log.producers.entries.values()
            if len(entry.batches) > 1
        ]
    return json.dumps(row, separators=(",", ":")).encode()


def decode_row(data: bytes) -> dict[str, Any]:
    import json

    row: dict[str, Any] = json.loads(data)
    if "topic" in row:
        row["topic"] = bytes.fromhex(row["topic"])
    return row


def topic_of(row: dict[str, Any]) -> Uuid | None:
    """The topic id in a row; None if the log had none."""
    return row.get("topic")


def open_from_row(
    disk: Disk, folder: str, config: LogConfig, row: dict[str, Any], *, is_unmodified: bool
) -> Log | None:
    """Open the log of a row; None if the folder does not match it.

    `is_unmodified`: no file of the folder was created, renamed or deleted since the manifest.
    """
    log = Log(disk, folder, config)
    log.start_offset, log.end_offset = row["start"], row["end"]
    log.recovery_point = log.end_offset
    log.first_leader_epoch = row.get("first_epoch", 0)
    names = None if is_unmodified else set(disk.files.list(folder))
    for base, size, max_timestamp, max_timestamp_offset, first_timestamp in row["segments"]:
        segment = Segment(disk, folder, base)
        segment.size = size
        segment.max_timestamp, segment.max_timestamp_offset = max_timestamp, max_timestamp_offset
        segment.first_timestamp = first_timestamp
        segment.has_index_files = True
        if not _matches_row(disk, segment, names):
            return None
        if log.segments:
            log.segments[-1].end_offset = base
        log.segments.append(segment)
    if log.segments:
        log.segments[-1].end_offset = log.end_offset
    if names is not None and len([name for name in names if name.endswith(LOG)]) != len(
        log.segments
    ):
        return None
    if "epochs" in row:
        log.epochs = EpochCache(row["epochs"])
    if "snapshots" in row:
        log.tracker = ProducerTracker(disk, folder, row["snapshots"])
        state = decode_snapshot(binascii.a2b_base64(row["producers"]), folder)
        for producer_id, batches in row.get("batches", ()):
            retained = tuple([RetainedBatch(*fields) for fields in batches])
            state.entries[producer_id] = state.entries[producer_id].replace(batches=retained)
        log.tracker.state = state
    return log


def _matches_row(disk: Disk, segment: Segment, names: set[str] | None) -> bool:
    if names is not None:
        for ending in (LOG, INDEX, TIME_INDEX):
            if segment.path(ending).rpartition("/")[2] not in names:
                return False
    return disk.files.size_of(segment.log.path) == segment.size


def encode_manifest(rows: Mapping[LogName, bytes]) -> bytes:
    lines = [f"{topic} {number} ".encode() + rows[topic, number] for topic, number in sorted(rows)]
    return b"\n".join([_HEAD.rstrip(), *lines, b""])


def decode_manifest(data: bytes, path: str) -> dict[LogName, bytes]:
    """Decode the rows; equal rows, such as those of a topic's empty logs, are one object."""
    if not data.startswith(_HEAD):
        raise CorruptLogError(f"{path} is not a manifest of version 1")
    rows: dict[LogName, bytes] = {}
    shared: dict[bytes, bytes] = {}
    position = len(_HEAD)
    while position < len(data):  # `split` would copy all of it
        end = data.index(b"\n", position)
        topic_end = data.index(b" ", position)
        number_end = data.index(b" ", topic_end + 1)
        name = data[position:topic_end].decode(), int(data[topic_end + 1 : number_end])
        row = data[number_end + 1 : end]
        rows[name] = shared.setdefault(row, row)
        position = end + 1
    return rows


def encode_marker(broker_epoch: int, manifest: bytes) -> bytes:
    """Encode Kafka's marker with an additional key, which Kafka's reader accepts."""
    import json

    content = {"version": 0, "brokerEpoch": broker_epoch, _CHECKSUM_KEY: crc32c(manifest)}
    return json.dumps(content, separators=(",", ":")).encode()


def decode_marker(data: bytes) -> tuple[int, int | None]:
    """The broker epoch (-1 if unreadable) and the checksum of the marker's manifest."""
    import json

    try:
        content = json.loads(data)
        return int(content["brokerEpoch"]), content.get(_CHECKSUM_KEY)
    except (ValueError, KeyError, TypeError, AttributeError):
        return -1, None
