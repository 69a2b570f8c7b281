"""The messages between replicas of a quorum, and the raft core's events and effects.

The driver of the quorum (`node/quorum`) carries these effects out, most of them as effects of the
node (`effects.py`). An effect's `after` names what must be durable before it happens.

The host gives these their wire form (Kafka's Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch,
FetchSnapshot, and our ReadOffset). Bytes of records never come here: a follower's host hands over
summaries of the batches it received, a leader answers with a range of offsets and its host reads
them from the log.
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
    """A candidate asks for a vote; with `pre_vote`, whether asking would be worth it (P1)."""

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


class Begin(Value):
    """A new leader tells a voter (Q15)."""

    cluster_id: str | None
    receiver: ReplicaKey
    leader_id: int
    epoch: int


class BeginResult(Value):
    error: int
    leader_id: int
    epoch: int


class End(Value):
    """A leader that leaves names its successors, the best first (Q17)."""

    cluster_id: str | None
    leader_id: int
    epoch: int
    successors: tuple[ReplicaKey, ...]


class EndResult(Value):
    error: int
    leader_id: int
    epoch: int


class Fetch(Value):
    """A replica asks for what follows `offset`, and so says that it has what is before (Q18)."""

    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    offset: int
    last_epoch: int
    high_watermark: int
    max_wait_ms: int
    max_bytes: int


class Batch(Value):
    """What a core knows of a batch: its place, and the voters if it is a record of them."""

    base_offset: int
    last_offset: int
    epoch: int
    size_bytes: int
    voters: VoterSet | None = None
    payload: Any = None  # the host's


class LeaderChange(Value):
    """What a new leader writes down first (Q14), as the payload of its batch.

    The first leader of a cluster adds the voters and the cluster's id as a second record (R11).
    """

    leader_id: int
    voter_ids: tuple[int, ...]
    granting_ids: tuple[int, ...]
    voters: VoterSet | None = None


class FetchResult(Value):
    """At most one of `diverging`, `snapshot` and records is there.

    The leader's core says up to which offset records go (`limit`); the receiver's host fills in
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


class SnapshotFetch(Value):
    """A replica asks for a chunk of a snapshot."""

    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    id: OffsetAndEpoch
    position: int
    max_bytes: int


class SnapshotChunk(Value):
    """The leader's host fills in `size` of the whole, `length` and `data` of this chunk."""

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
    """Where must I have read to, to see all that was committed before I asked (P5)?"""

    cluster_id: str | None


class ReadOffsetResult(Value):
    error: int
    leader_id: int
    epoch: int
    offset: int


# From the host -----------------------------------------------------------------------------------


class Request(Value):
    """A request of a peer. `number` grows with every request of that peer, in all its lives.

    On one channel, a connection, there is one request at a time: whoever asks again before it was
    answered does so on a new one (`Send.fresh`). The proof behind a read rests on that (P5). What
    comes late has the number it was sent with, or comes on its own channel in its order, once.
    """

    slot: Any
    body: Any
    channel: Any = None
    number: int = 0


class Response(Value):
    """The answer to our request `number`."""

    peer: int
    number: int
    body: Any


class NoResponse(Value):
    """Our request `number` will not be answered: it timed out, or its connection broke."""

    peer: int
    number: int


class PeerGone(Value):
    """Proof that a peer's process is gone: its connection ended and a new one was refused.

    `lags`: the state machine here has much to replay first, so others had better lead.
    """

    peer: int
    lags: bool = False


class Flushed(Value):
    """The log is durable up to `offset`. Not told when a truncation came in between."""

    offset: int


class SnapshotTaken(Value):
    """The state machine has written a snapshot of everything before `id.offset`."""

    id: OffsetAndEpoch


class SnapshotInstalled(Value):
    """A fetched snapshot has taken the place of the log; these were its voters."""

    id: OffsetAndEpoch
    voters: VoterSet


class SnapshotDamaged(Value):
    """The fetched snapshot is not whole, and is gone; the log is as it was."""

    id: OffsetAndEpoch


class ElectionPersisted(Value):
    """The election state with this version is durable."""

    version: int


# What a core wants done --------------------------------------------------------------------------


class ElectionState(Value):
    """What must survive (Q4): the epoch, and whom this replica voted for or follows in it."""

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
    """Write a batch at the end of the log, and flush it as soon as may be."""

    batch: Batch


class Truncate(Value):
    """Cut the log off at `offset`."""

    offset: int


class DropPrefix(Value):
    """What is before `offset` is in a snapshot: remove it from the log."""

    offset: int


class WriteSnapshot(Value):
    """Put a chunk at its place in a snapshot that is being fetched."""

    id: OffsetAndEpoch
    position: int
    data: Any


class InstallSnapshot(Value):
    """All of the snapshot is there: check it and put it in place of the log, durably.

    The host reports SnapshotInstalled or SnapshotDamaged.
    """

    id: OffsetAndEpoch


class Send(Value):
    """Ask a peer; the answer comes back as Answered or Unanswered with this number.

    `fresh`: the request before was not answered yet, so this one goes by a new connection.
    """

    peer: int
    number: int
    body: Any
    after: tuple[ElectionDurable | LogDurable, ...] = ()
    fresh: bool = False


class Reply(Value):
    """Answer a request that was Asked."""

    slot: Any
    body: Any
    after: tuple[ElectionDurable | LogDurable, ...] = ()


class Committed(Value):
    """Everything before `offset` is committed: apply it."""

    offset: int


class LeaderChanged(Value):
    """For the state machine on top: who leads now, -1 if nobody is known to."""

    leader_id: int
    epoch: int


class ClusterIdKnown(Value):
    """The cluster's id is committed: keep it (Q29)."""

    cluster_id: str


class WrongCluster(Value):
    """A peer of another cluster takes this replica for one of its own: refused, to be logged."""

    peer: int


class Stop(Value):
    """This replica can't go on: `why` is for people."""

    why: str


class Proposed(Value):
    """What became of a proposal (Q25). REQUEST_TIMED_OUT: nobody knows, it may yet commit."""

    slot: Any
    error: int
    offset: int = -1
