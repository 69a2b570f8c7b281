"""One moment of the whole quorum. States share what did not change and are never changed."""

from __future__ import annotations

from kraftlog.logstate.voters import ReplicaKey, VoterHistory, voters_by_id
from kraftlog.raft.config import RaftConfig
from kraftlog.raft.core import RaftCore
from kraftlog.raft.log import RaftLog
from kraftlog.raft.messages import ElectionState
from kraftlog.simulator.explorer.bounds import NODES
from kraftlog.types import Now
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.messages import Batch, Reply, Send
    from kraftlog.simulator.explorer.bounds import Bound

CLUSTER = "cluster"
#: Time stands still: a timer may fire whenever it is armed.
NOW = Now(0, 0)
#: But for a leader that finds that nobody has been heard of for long.
MUCH_LATER = Now(1_000_000_000, 0)
NO_PROMISE = (0, -1)
#: Where messages are under way between two nodes. LATE is a request that another has overtaken.
REQUEST, ANSWER, LATE = range(3)


class Message(Value):
    """A request, or the answer to the request `number` of its target, in that `life` of its."""

    source: int
    target: int
    is_answer: bool
    life: int
    number: int
    body: Any
    #: The answer to a question before the vote: it promises nothing.
    is_pre_vote: bool = False

    @property
    def asker(self) -> int:
        return self.target if self.is_answer else self.source

    @property
    def asked(self) -> int:
        return self.source if self.is_answer else self.target

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it is under way: the next one in this place takes it."""
        return self.source, self.target, ANSWER if self.is_answer else REQUEST


class Node:
    """A core with its disk. `flushed` of the core's log says how much of `batches` is durable."""

    __slots__ = (
        "batches",
        "core",
        "crashes",
        "election",
        "held",
        "keys",
        "pending",
        "promised",
    )

    def __init__(self, core: RaftCore, crashes: int) -> None:
        self.core = core
        #: How often it may still crash, which also tells its lives apart.
        self.crashes = crashes
        self.batches: tuple[Batch, ...] = ()
        #: What is durable, and what is on its way there as (version, election state).
        self.election = core.election
        self.pending: tuple[tuple[int, ElectionState], ...] = ()
        #: What waits for the disk before it may be said.
        self.held: tuple[Send | Reply, ...] = ()
        #: The newest vote that others know of: epoch and candidate.
        self.promised = NO_PROMISE
        #: Keys by the names of the nodes, made once; the symmetry's.
        self.keys: dict[tuple[int, ...], Any] = {}

    def copy(self) -> Node:
        twin = Node.__new__(Node)
        twin.core = self.core.copy()
        twin.crashes = self.crashes
        twin.batches = self.batches
        twin.election = self.election
        twin.pending = self.pending
        twin.held = self.held
        twin.promised = self.promised
        twin.keys = {}
        return twin

    @property
    def durable(self) -> tuple[Batch, ...]:
        flushed = self.core.log.flushed
        return tuple([batch for batch in self.batches if batch.last_offset < flushed])

    def awaits(self, peer: int, life: int, number: int) -> bool:
        """Whether this node still wants the answer of `peer` to a request."""
        known = self.core.peers.get(peer)
        return life == self.crashes and known is not None and known.in_flight == number


class State:
    """All nodes, all messages, and what has ever happened that must not happen twice."""

    __slots__ = ("committed", "keeps_late", "leaders", "nodes", "records", "touched", "wire")

    def __init__(self, nodes: list[Node], bound: Bound) -> None:
        self.nodes = nodes
        self.wire: dict[tuple[int, int, int], Message] = {}
        #: How many records may still be proposed.
        self.records = bound.records
        self.keeps_late = bound.repeats
        #: Who has ever led, by epoch; and the longest log that was ever committed.
        self.leaders: tuple[tuple[int, int], ...] = ()
        self.committed: tuple[Batch, ...] = ()
        #: The nodes that this state does not share with the one before.
        self.touched: set[int] = set()

    def copy(self) -> State:
        twin = State.__new__(State)
        twin.nodes = self.nodes[:]
        twin.wire = self.wire.copy()
        twin.records = self.records
        twin.keeps_late = self.keeps_late
        twin.leaders = self.leaders
        twin.committed = self.committed
        twin.touched = set()
        return twin

    def is_wanted(self, message: Message) -> bool:
        """Whether somebody still waits for what the message asks or answers."""
        return self.nodes[message.asker].awaits(message.asked, message.life, message.number)

    def change(self, node_id: int) -> Node:
        """The node, to be changed in this state only."""
        if node_id not in self.touched:
            self.touched.add(node_id)
            self.nodes[node_id] = self.nodes[node_id].copy()
        return self.nodes[node_id]


def make_core(node_id: int, batches: tuple[Batch, ...], election: ElectionState) -> RaftCore:
    """A replica that starts with what its disk holds."""
    log = RaftLog(VoterHistory(voters_by_id(*range(NODES))))
    for batch in batches:
        log.append(batch)
    log.flushed = log.end
    return RaftCore(ReplicaKey(node_id), log, election, RaftConfig(seed=node_id), NOW, CLUSTER)


def first_state(bound: Bound) -> State:
    nodes = [
        Node(make_core(node_id, (), ElectionState()), bound.crashes[node_id])
        for node_id in range(NODES)
    ]
    return State(nodes, bound)
