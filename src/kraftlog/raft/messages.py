"""The messages between the replicas of a quorum, and the raft core's events and effects.

The quorum driver (`node/quorum`) carries these effects out, most of them as effects of the node
(`effects.py`). They are a vocabulary of their own, because the core knows replicas, batches and
points that must be durable, but no addresses, bytes, API versions or other logs. An effect's
`after` lists what must be durable before it happens.

The host converts the messages to their wire format (Kafka's Vote, BeginQuorumEpoch,
EndQuorumEpoch, Fetch and FetchSnapshot, and our ReadOffset). A `pending` is the host's name for a
request or a proposal that awaits its outcome; the core only returns it. The core never sees the
bytes of records: a follower's host passes it summaries of the batches it received, and a leader
responds with a range of offsets that its host reads from the log.
"""

from __future__ import annotations

from typing import Any

from kraftlog.logstate.voters import ReplicaKey, VoterSet
from kraftlog.types import OffsetAndEpoch
from kraftlog.value import Value

#: Epochs are 32 bits wide in every file and message, and never wrap (Q2).
MAX_EPOCH = 2**31 - 1

# Between replicas --------------------------------------------------------------------------------


class Vote(Value):
    """A candidate requests a vote, or asks in a pre-vote whether it would get one (P1)."""

    cluster_id: str | None
    receiver: ReplicaKey
    epoch: int
    candidate: ReplicaKey
    last_epoch: int
    end_offset: int
    pre_vote: bool


class VoteResult(Value):
    error: int
    leader_id: int
    epoch: int
    granted: bool


class BeginEpoch(Value):
    """A new leader announces itself to a voter (Q15)."""

    cluster_id: str | None
    receiver: ReplicaKey
    leader_id: int
    epoch: int


class BeginEpochResult(Value):
    error: int
    leader_id: int
    epoch: int


class EndEpoch(Value):
    """A resigning leader names its successors, the preferred one first (Q17)."""

    cluster_id: str | None
    leader_id: int
    epoch: int
    successors: tuple[ReplicaKey, ...]


class EndEpochResult(Value):
    error: int
    leader_id: int
    epoch: int


class Fetch(Value):
    """A replica requests records from `offset` on, which acknowledges all before it (Q18)."""

    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    offset: int
    last_epoch: int
    high_watermark: int
    max_wait_ms: int
    max_bytes: int


class Batch(Value):
    """What the core knows about a batch; `voters` is set if it contains a voters record."""

    base_offset: int
    last_offset: int
    epoch: int
    size_bytes: int
    voters: VoterSet | None = None
    #: The records as the host keeps them; opaque to the core.
    payload: Any = None


class LeaderChange(Value):
    """The payload of a new leader's first batch (Q14).

    The first leader of a cluster also records the voters and the cluster id (R11).
    """

    leader_id: int
    voter_ids: tuple[int, ...]
    granting_ids: tuple[int, ...]
    voters: VoterSet | None = None


class FetchResult(Value):
    """The response to a fetch: at most one of `diverging`, `snapshot` and records.

    The leader's core sets the end of the records to send (`limit`); the receiving host fills in
    `batches`.
    """

    error: int
    leader_id: int
    epoch: int
    high_watermark: int
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    offset: int = -1
    limit: int = -1
    batches: tuple[Batch, ...] = ()
    #: With NOT_LEADER_OR_FOLLOWER of the leader itself: the offset of the committed voter set,
    #: which the fetcher's log lacks and which does not have the fetcher (R7).
    removed_at: int = -1


class SnapshotFetch(Value):
    """A replica requests a chunk of a snapshot."""

    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    id: OffsetAndEpoch
    position: int
    max_bytes: int


class SnapshotChunk(Value):
    """A chunk of a snapshot.

    The leader's host fills in the `size` of the snapshot, and the `length` and `data` of the chunk.
    """

    error: int
    leader_id: int
    epoch: int
    id: OffsetAndEpoch
    position: int
    max_bytes: int = 0
    size: int = -1
    length: int = 0
    data: Any = None


class ReadOffset(Value):
    """Request the offset that a linearizable read must wait for (P5).

    `replica` sends this request, in `replica_epoch`, after its reads have begun. The request of a
    voter proves to the leader that the voter still follows it, just as its next fetch would.
    `read_at_ms` is the sender's wall clock when the oldest of these reads began; -1 if unknown. The
    leader decides nothing by it.
    """

    cluster_id: str | None
    replica: ReplicaKey | None = None
    replica_epoch: int = -1
    read_at_ms: int = -1


class ReadOffsetResult(Value):
    error: int
    leader_id: int
    epoch: int
    offset: int


# From the host -----------------------------------------------------------------------------------


class Request(Value):
    """A request from a peer; `number` grows with every request of that peer, even if it restarts.

    A channel (a connection) carries one request at a time: a peer that gives up on a response
    sends the next request on a new channel (`Send.needs_new_connection`). The proof for
    linearizable reads relies on this (P5): a late request either carries its original number or
    arrives once and in order on its own channel.
    """

    pending: Any
    body: Any
    channel: Any = None
    number: int = 0


class Response(Value):
    """The response to this replica's request `number`."""

    peer: int
    number: int
    body: Any


class NoResponse(Value):
    """This replica's request `number` gets no response: it timed out or its connection broke."""

    peer: int
    number: int


class PeerDown(Value):
    """A peer's process is dead: its connection closed, and a new one was refused.

    `this_replica_lags` means that the local state machine has much to replay, so that other voters
    should campaign first.
    """

    peer: int
    this_replica_lags: bool = False


class Flushed(Value):
    """The log is durable up to `offset`; not reported if it was truncated during the flush."""

    offset: int


class SnapshotTaken(Value):
    """The state machine has written a snapshot of everything before `id.offset`."""

    id: OffsetAndEpoch


class SnapshotInstalled(Value):
    """A fetched snapshot has replaced the log; it contains these voters."""

    id: OffsetAndEpoch
    voters: VoterSet


class SnapshotDamaged(Value):
    """The fetched snapshot is corrupt and has been deleted; the log is unchanged."""

    id: OffsetAndEpoch


class ElectionPersisted(Value):
    """The election state with this version is durable."""

    version: int


# Effects -----------------------------------------------------------------------------------------


class ElectionState(Value):
    """What must survive a restart (Q4): the epoch, and its leader or this replica's vote."""

    epoch: int = 0
    leader_id: int = -1
    voted: ReplicaKey | None = None


class PersistElection(Value):
    version: int
    state: ElectionState


class ElectionDurable(Value):
    """A durable point: the election state with this version is on disk."""

    version: int


class LogDurable(Value):
    """A durable point: the log is on disk up to this offset."""

    offset: int


class Append(Value):
    """Write a batch at the end of the log, and flush it as soon as possible."""

    batch: Batch


class Truncate(Value):
    """Truncate the log to `offset`."""

    offset: int


class DropPrefix(Value):
    """Delete the log before `offset`, which a snapshot covers."""

    offset: int


class WriteSnapshot(Value):
    """Write a chunk to a snapshot that is being fetched."""

    id: OffsetAndEpoch
    position: int
    data: Any


class InstallSnapshot(Value):
    """The snapshot is complete: verify it and replace the log with it, durably.

    The host reports SnapshotInstalled or SnapshotDamaged.
    """

    id: OffsetAndEpoch


class Send(Value):
    """Send a request to a peer; a Response or NoResponse with this number comes back.

    `needs_new_connection` means that the previous request on the connection has no response yet.
    """

    peer: int
    number: int
    body: Any
    after: tuple[ElectionDurable | LogDurable, ...] = ()
    needs_new_connection: bool = False


class Reply(Value):
    """Respond to a Request."""

    pending: Any
    body: Any
    after: tuple[ElectionDurable | LogDurable, ...] = ()


class Committed(Value):
    """Everything before `offset` is committed: apply it."""

    offset: int


class LeaderChanged(Value):
    """Notify the state machine of the current leader; -1 if none is known."""

    leader_id: int
    epoch: int


class ClusterIdKnown(Value):
    """The cluster id is committed: store it (Q29)."""

    cluster_id: str


class WrongCluster(Value):
    """A peer belongs to another cluster; the host logs it."""

    peer: int


class EpochRefused(Value):
    """A request named an epoch that no election explains (`epoch_allowance`); the host logs it."""

    node_id: int
    epoch: int


class Stop(Value):
    """This replica cannot continue; `reason` is the message for the operator.

    If `leader` is not -1, the reason is that this leader belongs to another cluster: `cluster_id`,
    if known.
    """

    reason: str
    leader: int = -1
    cluster_id: str | None = None


class Proposed(Value):
    """The outcome of a proposal (Q25); after REQUEST_TIMED_OUT it may still be committed."""

    pending: Any
    error: int
    offset: int = -1
