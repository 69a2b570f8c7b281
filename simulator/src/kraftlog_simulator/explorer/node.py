"""One replica in the explorer: a core with its disk, and its unsent messages.

A node that has a number in a table (`tables`) never changes: an event is applied to a copy.
"""

from __future__ import annotations

from kraftlog.logstate.voters import ReplicaKey, VoterHistory, voters_by_id
from kraftlog.raft.config import RaftConfig
from kraftlog.raft.core import RaftCore
from kraftlog.raft.log import RaftLog
from kraftlog.raft.messages import ElectionState
from kraftlog.raft.roles.leader import Leader
from kraftlog.types import Now
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog_simulator.explorer.bounds import NODES

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.messages import Batch, Reply, Send

CLUSTER_ID = "cluster"
#: Time stands still: an armed timer may fire at any time.
NOW = Now(0, 0)
#: A time when a leader that has heard from no majority has to resign.
AFTER_ALL_TIMEOUTS = Now(1_000_000_000, 0)
#: An epoch and a candidate.
NO_VOTE = (0, -1)


class Message(Value):
    """A request or response in flight; a response that is not awaited is never sent.

    A message is not awaited if the request's sender gave up, sent a newer request, or has crashed.
    """

    source: int
    target: int
    is_response: bool
    is_awaited: bool
    body: Any
    #: The response to a pre-vote, which is no vote.
    is_pre_vote: bool = False


class RequestContext(Value):
    """Where a response goes; the core holds it as the request's pending response."""

    id: int
    is_awaited: bool
    is_pre_vote: bool


class Node:
    """A core with its disk; of `batches`, those before the core's `log.flushed` are durable."""

    __slots__ = ("batches", "core", "crashes", "election", "held", "pending", "sent_vote")

    def __init__(self, core: RaftCore, crashes: int) -> None:
        self.core = core
        #: How often it may still crash.
        self.crashes = crashes
        #: Without payloads: batches of one offset and epoch come from one leader.
        self.batches: tuple[Batch, ...] = ()
        #: The durable election state, and those being written as (version, election state).
        self.election = core.election
        self.pending: tuple[tuple[int, ElectionState], ...] = ()
        #: Messages that wait for the disk. All responses among them are awaited.
        self.held: tuple[Send | Reply, ...] = ()
        #: The newest vote that was sent: epoch and candidate.
        self.sent_vote = NO_VOTE

    def copy(self) -> Node:
        copied = Node.__new__(Node)
        copied.core = self.core.copy()
        copied.crashes = self.crashes
        copied.batches = self.batches
        copied.election = self.election
        copied.pending = self.pending
        copied.held = self.held
        copied.sent_vote = self.sent_vote
        return copied

    @property
    def id(self) -> int:
        return self.core.me.id

    @property
    def durable(self) -> tuple[Batch, ...]:
        flushed = self.core.log.flushed
        return tuple([batch for batch in self.batches if batch.last_offset < flushed])

    @property
    def committed(self) -> tuple[Batch, ...]:
        """The batches that it reports as committed."""
        end = self.core.log.high_watermark
        return tuple([batch for batch in self.batches if batch.last_offset < end])

    @property
    def parked(self) -> tuple[Any, ...]:
        """The parked fetches, if it leads."""
        role = self.core.role
        return role.parked if isinstance(role, Leader) else ()

    def in_flight(self, peer: int) -> int:
        """The number of its request to `peer` in flight, or -1."""
        state = self.core.peers.get(peer)
        return -1 if state is None else state.in_flight

    def waits_for(self) -> tuple[int, ...]:
        """The peers from which it waits for a response."""
        return tuple([peer for peer in range(NODES) if self.in_flight(peer) >= 0])


def make_core(node_id: int, batches: tuple[Batch, ...], election: ElectionState) -> RaftCore:
    """A replica that starts with the content of its disk."""
    log = RaftLog(VoterHistory(voters_by_id(*range(NODES))))
    for batch in batches:
        log.append(batch)
    log.flushed = log.end
    return RaftCore(ReplicaKey(node_id), log, election, RaftConfig(seed=node_id), NOW, CLUSTER_ID)


def new_node(node_id: int, crashes: int) -> Node:
    return Node(make_core(node_id, (), ElectionState()), crashes)
