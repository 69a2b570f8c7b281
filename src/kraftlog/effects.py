"""The node's effects: what its host is to do, and what became of it.

The node emits effects; a host (the server or the simulator) carries them out in order and reports
back by messages. The raft core inside the node has effects of its own, in `raft/messages.py`: the
quorum's driver turns those into these. Records that are produced take no effects: see
`ReplicaManager.turn`.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.types import Buffer, LogName, OffsetAndEpoch, Uuid

# Effects -----------------------------------------------------------------------------------------


class OpenLog(Value):
    """Open or make a log; answered by LogOpened or LogFailed."""

    log: LogName
    topic_id: Uuid
    config: Any  # a TopicConfig


class ConfigureLog(Value):
    """The settings of a log's topic have changed."""

    log: LogName
    config: Any  # a TopicConfig


class DeleteLog(Value):
    """Remove a topic's log, whether it is open yet or not."""

    log: LogName
    topic_id: Uuid


class MarkStrays(Value):
    """Give logs that were here at the start, and are not among these, a name that tells them apart:
    they belong to no partition of this broker. They are data, so they are not removed, unless the
    metadata log itself says that their topic was deleted."""

    logs: frozenset[LogName]
    deleted: frozenset[Uuid]


class Reply(Value):
    """Answer a request."""

    slot: Any  # a Slot of the host's connection
    response: Any  # a message of the API's response class


class LogLine(Value):
    """A line for whoever looks after the node."""

    line: str


class AppendBatch(Value):
    """Write whole batches at the end of a log and flush them as soon as may be: LogFlushed.

    Without `flush` that may wait for whatever is flushed next, or for the end.
    """

    log: LogName
    data: Buffer
    flush: bool = True


class TruncateLog(Value):
    """Cut a log off at an offset."""

    log: LogName
    offset: int


class MoveLogStart(Value):
    """What is before the offset is not needed any more; of a topic's log: LogStartMoved."""

    log: LogName
    offset: int


class ReadLog(Value):
    """Read whole batches from `offset` to before `limit`, a chunk: answered by LogRead."""

    log: LogName
    offset: int
    limit: int


class WriteElection(Value):
    """Keep the election state of the metadata quorum, durably: answered by ElectionWritten."""

    version: int
    epoch: int
    leader_id: int
    voted: Any  # a ReplicaKey, or None
    #: What else the file tells, by what is committed and applied now.
    kraft_version: int = 0
    cluster_id: str | None = None
    applied_offset: int = 0
    voter_ids: tuple[int, ...] = ()


class PersistClusterId(Value):
    """Write to `meta.properties` to which cluster this node belongs: the log says so."""

    cluster_id: str


class SendRecords(Value):
    """Answer a fetch of the quorum with what the log holds, up to so many bytes."""

    slot: Any
    answer: Any  # a raft FetchResult
    log: LogName
    max_bytes: int


class StoreSnapshot(Value):
    """Write a snapshot of the metadata, durably: answered by SnapshotStored.

    `pieces` yields its bytes, a slice of work at a time.
    """

    id: OffsetAndEpoch
    pieces: Any


class SendSnapshot(Value):
    """Answer with a piece of a snapshot."""

    slot: Any
    answer: Any  # a raft SnapshotChunk


class WriteSnapshotPart(Value):
    """Put a piece of a snapshot that is being fetched at its place."""

    id: OffsetAndEpoch
    position: int
    data: bytes


class InstallSnapshot(Value):
    """All pieces of a snapshot are there: it is checked and takes the place of the log.

    Answered by SnapshotLoaded or SnapshotDamaged.
    """

    id: OffsetAndEpoch
    log: LogName


class SendRequest(Value):
    """Send a request to another node; ResponseReceived, RequestFailed or VersionUnsupported has
    this number.

    `version` is the newest that may be used: it goes in the peer's newest, if that is older.
    Requests of one `line` to one peer share a connection; `fresh` asks for a new one.
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
    fresh: bool = False


class UnreachablePeer(Value):
    """A request whose peer has no known address: answered by RequestFailed at once."""

    channel: str
    peer: int
    number: int


class Stop(Value):
    """This node can't go on: `why` is for people."""

    why: str


# What came of them -------------------------------------------------------------------------------
# A report about a topic's log carries the topic's id: by the time that it comes, the log may have
# been deleted, and another topic may have its name.


class LogOpened(Value):
    """A log is there. It holds the offsets from `start` to before `end`."""

    log: LogName
    topic_id: Uuid
    start: int
    end: int
    producers: Any = None  # a ProducerState of the receiver's own; None: of no producer is known


class LogStartMoved(Value):
    """A log begins at `start`: after any crash too, if that is stored."""

    log: LogName
    topic_id: Uuid
    start: int
    is_stored: bool


class LogStartNotStored(Value):
    """There is no room on the disk to write down where a log begins; the log itself is well."""

    log: LogName
    topic_id: Uuid


class LogFailed(Value):
    """A log could not be opened, read or written; `why` is for people."""

    log: LogName
    topic_id: Uuid
    why: str


class LogFlushed(Value):
    """What had been written to a log up to before `offset` is durable."""

    log: LogName
    offset: int


class LogRead(Value):
    """What was read of a log: whole batches, the first of which holds `offset`."""

    log: LogName
    offset: int
    data: Buffer


class LogUnreadable(Value):
    """What a ReadLog wanted can't be read."""

    log: LogName
    offset: int
    why: str


class ElectionWritten(Value):
    """The election state with this version is durable."""

    version: int


class SnapshotStored(Value):
    """A snapshot of our own is durable."""

    id: OffsetAndEpoch


class SnapshotLoaded(Value):
    """A fetched snapshot has taken the place of the log; `data` is the whole of it."""

    id: OffsetAndEpoch
    data: Buffer


class SnapshotDamaged(Value):
    """A fetched snapshot is not whole: it is thrown away, and the log is as it was."""

    id: OffsetAndEpoch


class ResponseReceived(Value):
    """What a peer said to the request with this number."""

    channel: str
    peer: int
    number: int
    response: Any


class RequestFailed(Value):
    """The request with this number will not be answered."""

    channel: str
    peer: int
    number: int


class VersionUnsupported(Value):
    """The request with this number was not sent: the peer knows no version that could say it."""

    channel: str
    peer: int
    number: int


class PeerDown(Value):
    """A peer's process is gone for certain: its connection ended and a new one was refused."""

    peer: int
