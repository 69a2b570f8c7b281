"""Directories of surviving voters, for repair tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraftlog.logstate.voters import ReplicaKey
from kraftlog.node.quorum.batches import METADATA_LOG, control_batch, summaries
from kraftlog.raft.messages import Batch, ElectionState
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.reader import read_records
from kraftlog.runner.recovered_log import METADATA_CONFIG
from kraftlog.storage import meta_properties, quorum_state
from kraftlog.storage.batches import describe
from kraftlog.storage.directory import LogDirectory
from kraftlog.storage.disk import write_atomically
from kraftlog.types import METADATA_TOPIC_ID, uuid_text
from kraftlog.wire.messages.metadata_records import TopicRecord
from kraftlog.wire.record_frames import decode_metadata, encode_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraftlog.ports.files import Files
    from kraftlog.storage.log import Log

T0 = 1_700_000_000_000
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


def write_directory(
    files: Files,
    path: str,
    voter: ReplicaKey,
    batches: Iterable[Batch],
    state: ElectionState,
    *,
    committed: int = 0,
) -> None:
    """Write the directory of a voter with these batches, as a clean shutdown leaves it."""
    if not files.exists(path):
        files.make_folder(path)
    properties = (
        f"version=1\ncluster.id={CLUSTER}\nnode.id={voter.id}\n"
        f"directory.id={uuid_text(voter.directory_id)}\n"
    )
    write_atomically(files, f"{path}/{meta_properties.NAME}", properties.encode())
    directory = LogDirectory(files, path)
    log = directory.create(METADATA_LOG, METADATA_TOPIC_ID, METADATA_CONFIG)
    for batch in batches:
        raw = as_bytes(batch)
        log.append([raw], describe([raw]), T0)
    stored = quorum_state.QuorumStateData(state.leader_id, state.epoch, state.voted)
    quorum_state.store(files, log.folder, stored)
    if committed:
        directory.note_high_watermark(METADATA_LOG, committed)
    directory.close()


def as_bytes(batch: Batch) -> bytes:
    """The batch as bytes; a string payload becomes a TopicRecord of that name."""
    if not isinstance(batch.payload, str):
        return control_batch(batch, T0)
    builder = BatchBuilder(base_offset=batch.base_offset, leader_epoch=batch.epoch)
    topic = TopicRecord(name=batch.payload, topic_id=bytes(15) + b"t")
    builder.append(T0, None, encode_metadata(topic, 0))
    return builder.build()


def batches_in(log: Log) -> list[Batch]:
    """The batches of a log; their payload is the topic name, or "control"."""
    place = log.locate(log.start_offset, 1 << 30, log.end_offset)
    assert place is not None
    return [batch.replace(payload=value_of(batch)) for batch in summaries(log.read(place))]


def value_of(batch: Batch) -> Any:
    record = next(iter(read_records(batch.payload)))
    if record.key is not None:
        return "control"
    topic, _ = decode_metadata(record.value or b"")
    assert isinstance(topic, TopicRecord)
    return topic.name
