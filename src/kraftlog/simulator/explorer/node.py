"""One replica as the explorer has it: a core with its disk, and what it says to others.

A node is never changed once it has a number (`tables`): what happens to it happens to a copy.
"""

from __future__ import annotations

from kraftlog.logstate.voters import ReplicaKey, VoterHistory, voters_by_id
from kraftlog.raft.config import RaftConfig
from kraftlog.raft.core import RaftCore
from kraftlog.raft.log import RaftLog
from kraftlog.raft.messages import ElectionState
from kraftlog.raft.roles.leader import Leader
from kraftlog.simulator.explorer.bounds import NODES
from kraftlog.types import Now
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.messages import Batch, Reply, Send

CLUSTER = "cluster"
#: Time stands still: a timer may fire whenever it is armed.
NOW = Now(0, 0)
#: But for a leader that finds that nobody has been heard of for long.
MUCH_LATER = Now(1_000_000_000, 0)
NO_PROMISE = (0, -1)


class Message(Value):
    """A request or an answer under way. Nobody waits for one that is not `wanted`: its asker has
    given up, has asked anew, or has crashed. An answer like that is never said."""

    source: int
    target: int
    is_answer: bool
    wanted: bool
    body: Any
    #: The answer to a question before the vote: it promises nothing.
    is_pre_vote: bool = False


class RequestContext(Value):
    """Whom an answer goes to: what the core knows as the slot of a request."""

    id: int
    wanted: bool
    is_pre_vote: bool


class Node:
    """A core with its disk. `flushed` of the core's log says how much of `batches` is durable."""

    __slots__ = ("batches", "core", "crashes", "election", "held", "pending", "promised")

    def __init__(self, core: RaftCore, crashes: int) -> None:
        self.core = core
        #: How often it may still crash.
        self.crashes = crashes
        #: Without payloads: of two batches with one place and epoch, one leader wrote both.
        self.batches: tuple[Batch, ...] = ()
        #: What is durable, and what is on its way there as (version, election state).
        self.election = core.election
        self.pending: tuple[tuple[int, ElectionState], ...] = ()
        #: What waits for the disk before it may be said. Answers in it are all wanted.
        self.held: tuple[Send | Reply, ...] = ()
        #: The newest vote that others know of: epoch and candidate.
        self.promised = NO_PROMISE

    def copy(self) -> Node:
        twin = Node.__new__(Node)
        twin.core = self.core.copy()
        twin.crashes = self.crashes
        twin.batches = self.batches
        twin.election = self.election
        twin.pending = self.pending
        twin.held = self.held
        twin.promised = self.promised
        return twin

    @property
    def id(self) -> int:
        return self.core.me.id

    @property
    def durable(self) -> tuple[Batch, ...]:
        flushed = self.core.log.flushed
        return tuple([batch for batch in self.batches if batch.last_offset < flushed])

    @property
    def committed(self) -> tuple[Batch, ...]:
        """What it takes for committed."""
        end = self.core.log.high_watermark
        return tuple([batch for batch in self.batches if batch.last_offset < end])

    @property
    def parked(self) -> tuple[Any, ...]:
        """The fetches that wait for news, if it leads."""
        role = self.core.role
        return role.parked if isinstance(role, Leader) else ()

    def in_flight(self, peer: int) -> int:
        """The number of the request that it wants `peer` to answer, -1 if there is none."""
        known = self.core.peers.get(peer)
        return -1 if known is None else known.in_flight

    def waits_for(self) -> tuple[int, ...]:
        """The peers whose answers it wants."""
        return tuple([peer for peer in range(NODES) if self.in_flight(peer) >= 0])


def make_core(node_id: int, batches: tuple[Batch, ...], election: ElectionState) -> RaftCore:
    """A replica that starts with what its disk holds."""
    log = RaftLog(VoterHistory(voters_by_id(*range(NODES))))
    for batch in batches:
        log.append(batch)
    log.flushed = log.end
    return RaftCore(ReplicaKey(node_id), log, election, RaftConfig(seed=node_id), NOW, CLUSTER)


def new_node(node_id: int, crashes: int) -> Node:
    return Node(make_core(node_id, (), ElectionState()), crashes)
