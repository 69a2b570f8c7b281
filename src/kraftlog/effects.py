"""The node's effects, and the messages that report their outcomes.

The node emits effects. Its host (the server or the simulator) carries them out in order and reports
outcomes as messages. The raft core has its own effects in `raft/messages.py`, which the quorum
driver translates into these. Appends to partitions are not effects: the host gets them from
`ReplicaManager.take_turn`.
"""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.types import Buffer, LogName, OffsetAndEpoch, Responder, Uuid

# Effects -----------------------------------------------------------------------------------------


class OpenLog(Value):
    """Open or create a log; reported by LogOpened or LogFailed, maybe after LogPostponed.

    If the log has records of an epoch before `first_leader_epoch`, it belongs to a removed
    partition of the same number: it is deleted, and a new one is created.
    A new log is created in `directory`, if the metadata assigns one.
    """

    log: LogName
    topic_id: Uuid
    config: Any  # a TopicConfig
    first_leader_epoch: int = 0
    directory: Uuid = NULL_UUID
    is_new: bool = False  # whether this process is the first one of the broker with the replica


class LogComplete(Value):
    """A log that lacked committed records has them again, or its replica leads without them."""

    log: LogName


class ConfigureLog(Value):
    """Apply changed topic configs to a log."""

    log: LogName
    config: Any  # a TopicConfig


class DeleteLog(Value):
    """Delete a log, open or not."""

    log: LogName
    topic_id: Uuid


class MarkStrays(Value):
    """Rename logs found at start that are not among `logs`, those of this broker's partitions.

    They are deleted only if the metadata log has their topic id among the `deleted` topics, or
    their topic id and index among the `removed` partitions.
    """

    logs: frozenset[LogName]
    deleted: frozenset[Uuid]
    removed: frozenset[tuple[Uuid, int]] = frozenset()


class MoveReplica(Value):
    """Move a log to another directory of this broker; reported by LogPlaced once it is copied.

    If the log is in that directory already, a running move of it is cancelled.
    """

    log: LogName
    topic_id: Uuid
    directory: Uuid


class SendResponse(Value):
    """Respond to a request."""

    pending: Responder
    response: Any  # a message of the API's response class


#: The maximum number of characters of a peer's string in a line of the operator log.
MAX_SHOWN = 100


def printable(text: str) -> str:
    """A peer's string as part of one line: cut, and control characters replaced."""
    shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
    return "".join([character if character.isprintable() else "?" for character in shown])


class LogLine(Value):
    """A line of the operator log."""

    line: str


class AppendBatch(Value):
    """Append whole batches to the metadata log and flush them soon; reported by LogFlushed.

    Without `flush`, they are flushed with a later append or when the node stops.
    """

    log: LogName
    data: Buffer
    flush: bool = True


class TruncateLog(Value):
    """Truncate the metadata log to an offset."""

    log: LogName
    offset: int


class TruncatePartition(Value):
    """Truncate a partition's log to an offset, as its leader's log diverges from there on.

    With `restarts`, delete all records and continue at the offset. Reported by LogTruncated.
    """

    log: LogName
    topic_id: Uuid
    offset: int
    restarts: bool = False


class MoveLogStart(Value):
    """Advance the log start offset.

    For topics, reported by LogStartMoved, LogStartNotStored or LogFailed.
    """

    log: LogName
    offset: int


class ReadLog(Value):
    """Read a chunk of whole batches from `offset` to before `limit`.

    Reported by LogRead or LogUnreadable.
    """

    log: LogName
    offset: int
    limit: int


class WriteElection(Value):
    """Write the election state of the quorum durably; reported by ElectionWritten."""

    version: int
    epoch: int
    leader_id: int
    voted: Any  # a ReplicaKey, or None
    #: Other fields of the file, from the committed and applied state.
    kraft_version: int = 0
    cluster_id: str | None = None
    applied_offset: int = 0
    voter_ids: tuple[int, ...] = ()


class PersistClusterId(Value):
    """Write the cluster id, as found in the log, to `meta.properties`."""

    cluster_id: str


class WriteBootTimestamp(Value):
    """Write the boot timestamp of this node durably; reported by BootTimestampWritten."""

    boot_timestamp_ms: int


class SendRecords(Value):
    """Respond to a fetch of the quorum with records of the log, up to `max_bytes`."""

    pending: Responder
    response: Any  # a raft FetchResult
    log: LogName
    max_bytes: int


class StoreSnapshot(Value):
    """Write a metadata snapshot durably; reported by SnapshotStored.

    `pieces` yields its bytes, a slice of work at a time.
    """

    id: OffsetAndEpoch
    pieces: Any


class SendSnapshot(Value):
    """Respond with a chunk of a snapshot."""

    pending: Responder
    response: Any  # a raft SnapshotChunk


class WriteSnapshotPart(Value):
    """Write a chunk of a snapshot that is being fetched."""

    id: OffsetAndEpoch
    position: int
    data: bytes


class LoadSnapshot(Value):
    """Check a completely fetched snapshot and replace the log with it.

    Reported by SnapshotLoaded or SnapshotDamaged.
    """

    id: OffsetAndEpoch
    log: LogName


class SendRequest(Value):
    """Send a request to another node.

    ResponseReceived, RequestFailed or VersionUnsupported reports the outcome under the same
    `number`. `version` is the newest version to use; an older peer gets its own newest version.
    Requests of one `channel` to one peer share a connection; `needs_new_connection` asks for a new
    one.
    """

    channel: str
    peer: int
    host: str
    port: int
    number: int
    api_key: int
    version: int
    request: Any
    timeout_ms: int
    needs_new_connection: bool = False
    #: Close the connection once the response has arrived.
    closes: bool = False


class UnreachablePeer(Value):
    """A request to a peer without a known address; RequestFailed follows at once."""

    channel: str
    peer: int
    number: int


class StopNode(Value):
    """Stop the node; `reason` is the message for the operator."""

    reason: str


# Outcomes ----------------------------------------------------------------------------------------
# An outcome for a topic's log carries the topic id, because the topic may have been deleted and
# recreated under the same name in the meantime.


class LogOpened(Value):
    """A log is open; it has the offsets from `start` to before `end`."""

    log: LogName
    topic_id: Uuid
    start: int
    end: int
    producers: Any = None  # a ProducerState, now owned by the receiver; None: no producers
    high_watermark: int = 0  # as stored, a lower bound
    directory: Uuid = NULL_UUID  # the id of the log directory that has it
    lacks_records: bool = False  # whether it lacks records that were committed in it, or may
    #: Whether the metadata may name another directory only because a move to it is unfinished: this
    #: log lacks nothing.
    is_original: bool = False


class LogTruncated(Value):
    """A partition's log was truncated, or restarted."""

    log: LogName
    topic_id: Uuid
    start: int
    end: int


class LogStartMoved(Value):
    """The log start offset has moved; if `is_stored`, it survives a crash."""

    log: LogName
    topic_id: Uuid
    start: int
    is_stored: bool


class LogStartNotStored(Value):
    """The disk is too full to store the log start offset; the log itself is intact."""

    log: LogName
    topic_id: Uuid


class LogPostponed(Value):
    """A log cannot be opened before there is disk space; LogOpened or LogFailed may follow."""

    log: LogName
    topic_id: Uuid


class LogPlaced(Value):
    """The directory that the controller is to record for a replica (V22).

    A copy of the log there is whole; or that copy has failed, and this directory has the log.
    """

    log: LogName
    topic_id: Uuid
    directory: Uuid


class LogFailed(Value):
    """A log could not be opened, read or written; `reason` is for operators."""

    log: LogName
    topic_id: Uuid
    reason: str


#: The outcomes that concern the log of a partition.
LogReport = (
    LogOpened
    | LogTruncated
    | LogStartMoved
    | LogStartNotStored
    | LogPostponed
    | LogPlaced
    | LogFailed
)


class LogFlushed(Value):
    """Everything in a log below `offset` is durable."""

    log: LogName
    offset: int


class LogRead(Value):
    """Whole batches of a log, the first of which contains `offset`."""

    log: LogName
    offset: int
    data: Buffer


class LogUnreadable(Value):
    """A ReadLog failed."""

    log: LogName
    offset: int
    reason: str


class ElectionWritten(Value):
    """The election state with this version is durable."""

    version: int


class BootTimestampWritten(Value):
    """This boot timestamp is durable."""

    boot_timestamp_ms: int


class SnapshotStored(Value):
    """A snapshot written by this node is durable."""

    id: OffsetAndEpoch


class SnapshotLoaded(Value):
    """A fetched snapshot has replaced the log; `data` is the whole snapshot."""

    id: OffsetAndEpoch
    data: Buffer


class SnapshotCorrupt(Value):
    """A fetched snapshot is corrupt and was discarded; the log is unchanged."""

    id: OffsetAndEpoch


class ResponseReceived(Value):
    """The response to the request with this number."""

    channel: str
    peer: int
    number: int
    response: Any


class RequestFailed(Value):
    """The request with this number failed or timed out; `reason` is for the operator."""

    channel: str
    peer: int
    number: int
    reason: str = ""
    #: Whether this node itself has given up the request: that is no evidence about the peer.
    is_aborted: bool = False


class VersionUnsupported(Value):
    """The request was not sent: the peer supports no version that can express it."""

    channel: str
    peer: int
    number: int


#: The outcomes of a `SendRequest`.
RequestReport = ResponseReceived | RequestFailed | VersionUnsupported


class ConnectionRefused(Value):
    """A peer's process is down: its connection closed, and a new one was refused.

    This is evidence about the listener that the channel is connected to, not about others.
    """

    channel: str
    peer: int
    #: When the connection closed, in monotonic milliseconds.
    ended_ms: int
