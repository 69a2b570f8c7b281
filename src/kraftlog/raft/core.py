"""`RaftCore`: one replica of a Raft log, a pure state machine from messages to effects.

Its interface is `handle(message, now)`, `poll(now)`, `deadline()`, `take_effects()`, and methods
for proposals, voter changes, resignation and shutdown. The roles decide what a message means; the
core keeps what survives a change of role: the election state, the log's metadata and the peers. All
state is plain data, cheap to copy and to compare.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.jitter import jitter
from kraftlog.logstate.voters import Voter
from kraftlog.raft import changes, elections, messages, quorum, snapshots
from kraftlog.raft.config import RaftConfig
from kraftlog.raft.epoch_allowance import INITIAL_EPOCHS, EpochAllowance
from kraftlog.raft.messages import (
    MAX_EPOCH,
    ElectionDurable,
    ElectionPersisted,
    ElectionState,
    Flushed,
    LeaderChanged,
    LogDurable,
    NoResponse,
    PeerDown,
    PersistElection,
    Reply,
    Request,
    Response,
    Send,
    Stop,
)
from kraftlog.raft.peer import Peer
from kraftlog.raft.roles import make_role
from kraftlog.raft.roles.leader import Leader
from kraftlog.raft.roles.resigned import Resigned
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.logstate.voters import ReplicaKey, VoterSet
    from kraftlog.raft.log import RaftLog
    from kraftlog.raft.roles.role import Role
    from kraftlog.types import Now

#: Roles that a replica may have without being a voter: a removed leader keeps its role until its
#: removal is committed, and is then resigned until it has notified its successors.
ROLES_OF_NON_VOTERS = {quorum.OBSERVER, quorum.LEADER, quorum.RESIGNED}


#: The most timers that one `poll` may fire; far more than exist, even when each arms another.
MAX_FIRED = 1000


class RaftCore:
    """One replica of a Raft log, with the state that outlives its roles."""

    def __init__(
        self,
        me: ReplicaKey,
        log: RaftLog,
        election: ElectionState,
        config: RaftConfig,
        now: Now,
        cluster_id: str | None = None,
        new_voter: Callable[[ReplicaKey], Voter | None] = Voter,
    ) -> None:
        """`new_voter` describes an observer as a voter; None while its endpoints are unknown."""
        self.me = me
        self.log = log
        self.election = election
        self.config = config
        self.now = now
        self.cluster_id = cluster_id
        self.new_voter = new_voter
        #: Whether the quorum has confirmed this cluster id since the start: this replica has led,
        #: or a leader has answered its fetch (Q31).
        self.is_cluster_id_confirmed = False
        #: The last peer that was reported as a member of another cluster.
        self._foreign_peer = -1
        #: The offset of a committed record without this replica as a voter, as a leader has
        #: reported (R7). Only for campaigns, and only until the log has that record; -1 for none.
        self.removed_at = -1
        #: While the log names no voters: nodes that may be controllers (R9). They have no vote.
        self.discovered: tuple[int, ...] = ()
        self.peers: dict[int, Peer] = {}
        self.timers: dict[str, int] = {}
        #: The campaigns that this replica has lost since it last knew a leader, or since another
        #: candidate began an epoch.
        self.attempt = 0
        #: The voters that granted their vote in the last election that this replica won.
        self.granted: tuple[int, ...] = ()
        #: The newest version of the election state, and the newest that is durable.
        self.election_version = 0
        self.durable_election_version = 0
        #: How often the leader, or an election, took too long since the start; for metrics only.
        self.fetch_timeouts = self.election_timeouts = 0
        #: How far requests may raise the epoch, and how many wanted to raise it further.
        self.epoch_allowance = EpochAllowance(INITIAL_EPOCHS, now.monotonic_ms)
        self.refused_epochs = 0
        #: The number of the last request that this replica sent.
        self._last_number = 0
        self._effects: list[Any] = []
        if log.last_epoch > election.epoch:
            # The election state is older than the log, so votes given in the log's epoch are
            # unknown: vote for itself, and so for no other (Q4).
            self.election = ElectionState(log.last_epoch, -1, me)
            self._persist()
        name = elections.role_at_start(self)
        if self.election.leader_id == me.id:
            self.election = self.without_leader(self.election)
        self.role: Role = make_role(name)
        self.role.enter(self)

    # Interface -----------------------------------------------------------------------------------

    def handle(self, message: Any, now: Now) -> None:
        self.now = now
        _HANDLERS[type(message)](self, message)

    def poll(self, now: Now) -> None:
        """Fire the timers that are due, the earliest first."""
        self.now = now
        fired = 0
        while self.timers and min(self.timers.values()) <= now.monotonic_ms:
            _, name = min([(when, name) for name, when in self.timers.items()])
            fired += 1
            assert fired <= MAX_FIRED, f"the timer “{name}” is always due: polling never ends"
            self.fire(name)

    def fire(self, name: str) -> None:
        """Fire one timer: `poll` does so when it is due, the explorer at any time."""
        del self.timers[name]
        if name == "fetch timeout":
            self.fetch_timeouts += 1
        elif name == "election":
            self.election_timeouts += 1
        self.role.on_timer(self, name)

    def deadline(self) -> int | None:
        return min(self.timers.values(), default=None)

    def take_effects(self) -> list[Any]:
        taken, self._effects = self._effects, []
        return taken

    def copy(self) -> RaftCore:
        """Copy the whole state, so that the explorer can try several continuations."""
        twin = RaftCore.__new__(RaftCore)
        vars(twin).update(vars(self))
        twin.log = self.log.copy()
        twin.peers = {replica_id: peer.replace() for replica_id, peer in self.peers.items()}
        twin.timers = dict(self.timers)
        twin._effects = self._effects[:]
        twin.role = self.role.copy()
        return twin

    def key(self) -> tuple[Any, ...]:
        """The state for comparison, without times and request numbers."""
        election = self.election
        return (
            self.role.name,
            election.epoch,
            election.leader_id,
            election.voted and election.voted.id,
            self.election_version - self.durable_election_version,
            self.removed_at,
            self.log.key(),
            tuple(sorted(self.timers)),
            tuple(
                [
                    (i, p.request and type(p.request).__name__, p.is_down)
                    for i, p in self._busy_or_down_peers()
                ]
            ),
            self.role.key(),
        )

    def _busy_or_down_peers(self) -> list[tuple[int, Peer]]:
        """The peers that have a request in flight or are known to be down."""
        peers = [(i, p) for i, p in self.peers.items() if p.request is not None or p.is_down]
        return sorted(peers, key=lambda item: item[0])

    # For the roles -------------------------------------------------------------------------------

    def effect(self, effect: Any) -> None:
        self._effects.append(effect)

    def become(self, role: str, election: ElectionState | None = None) -> None:
        """Change the role and the election state; messages wait until the new state is durable."""
        old, new = self.election, election or self.election
        if role == quorum.RESIGNED:
            new = self.without_leader(new)
        quorum.check_transition(self.role.name, role, newer_epoch=new.epoch > old.epoch)
        assert old.epoch <= new.epoch <= MAX_EPOCH, f"epoch {old.epoch} can't become {new.epoch}"
        self.timers.clear()
        for peer in self.peers.values():
            peer.in_flight, peer.request = -1, None
        if new.epoch > old.epoch and role != quorum.CANDIDATE:
            self.attempt = 0  # failed attempts of its own do not count in another candidate's epoch
        if new != old:
            self.election = new
            self._persist()
        self.role.leave(self)
        if (new.epoch, new.leader_id) != (old.epoch, old.leader_id):
            self.effect(LeaderChanged(new.leader_id, new.epoch))
        self.role = make_role(role)
        self.role.enter(self)

    def without_leader(self, election: ElectionState) -> ElectionState:
        """The election state of a former leader: no leader in its epoch, and a vote for itself."""
        return ElectionState(election.epoch, -1, self.me)

    def vote_for(self, candidate: ReplicaKey) -> None:
        """Record a vote in this epoch; a replica never changes its vote (Q2)."""
        assert self.election.voted is None, "one vote an epoch"
        voted = self.election.replace(voted=candidate)
        if self.role.name == quorum.UNATTACHED:
            self.become(quorum.VOTED, voted)
        else:
            self.election = voted
            self._persist()

    def _persist(self) -> None:
        self.election_version += 1
        self.effect(PersistElection(self.election_version, self.election))

    def is_durable(self, points: tuple[ElectionDurable | LogDurable, ...]) -> bool:
        """Whether all these durable points are reached, so that the effect may happen now."""
        for point in points:
            if isinstance(point, ElectionDurable):
                if point.version > self.durable_election_version:
                    return False
            elif point.offset > self.log.flushed:
                return False
        return True

    def durable_election(self) -> tuple[ElectionDurable, ...]:
        """The durable point that every message based on the election state waits for (Q3)."""
        newest = self.election_version
        return (ElectionDurable(newest),) if self.durable_election_version < newest else ()

    def send(self, peer: int, body: Any, after: tuple[LogDurable, ...] = ()) -> None:
        """Send a request to a peer; each peer has at most one request in flight."""
        self._last_number += 1
        state = self.peer(peer)
        needs_new_connection = state.unanswered >= 0
        state.in_flight = state.unanswered = self._last_number
        state.request = body
        points = self.durable_election() + after
        self.effect(Send(peer, self._last_number, body, points, needs_new_connection))

    def reply(self, pending: object, body: Any) -> None:
        self.effect(Reply(pending, body, self.durable_election()))

    def peer(self, replica_id: int) -> Peer:
        known = self.peers.get(replica_id)
        if known is None:
            known = self.peers[replica_id] = Peer()
        return known

    def arm(self, name: str, in_ms: int) -> None:
        self.timers[name] = self.now.monotonic_ms + in_ms

    def jitter(self, *purpose: int, below: int) -> int:
        """Jitter: a pure function of this node's seed, the epoch and the attempt.

        `purpose`: numbers, such as those of `jitter_purposes`, that make the jitter of one use
        differ from that of the others.
        """
        return jitter(self.config.seed, self.election.epoch, self.attempt, *purpose, below=below)

    def backoff(self, failures: int) -> int:
        """How long to wait before the next request to a peer that does not respond (Q24)."""
        config = self.config
        grown = min(config.retry_backoff_ms << min(failures, 16), config.retry_backoff_max_ms)
        return grown // 2 + self.jitter(failures, below=grown // 2 + 1)

    # For roles and hosts -------------------------------------------------------------------------

    @property
    def is_voter(self) -> bool:
        return self.log.voter_set.holds(self.me)

    @property
    def may_campaign(self) -> bool:
        """Whether it is a voter, or was one before a removal that is not known to be committed.

        Its log may be the only one that holds the removal and the records before it, so that no
        other replica can be elected. It does not count its own vote then (Ongaro's thesis, 4.2.2).
        A replica whose removal a leader has reported does not campaign: without the committed
        record of the removal, or a later one that adds it again, no log wins an election (R7).
        """
        voters = self.log.voters
        if self.removed_at >= max(self.log.high_watermark, voters.members_since):
            return False
        return self.is_voter or (
            voters.members_since >= self.log.high_watermark and voters.before_latest.holds(self.me)
        )

    @property
    def may_be_counted(self) -> bool:
        """Whether a leader may count its fetches, so that its log is flushed before each (Q6).

        Its own log decides, as for its votes, even if a leader has reported its removal.
        """
        return self.is_voter or self.may_campaign

    @property
    def others(self) -> list[int]:
        """The ids of the other voters."""
        return [voter_id for voter_id in self.log.voter_set.ids if voter_id != self.me.id]

    @property
    def leader_and_epoch(self) -> dict[str, Any]:
        """The two fields that every response carries (Q23)."""
        return {"leader_id": self.election.leader_id, "epoch": self.election.epoch}

    def cluster_id_differs(self, theirs: str | None) -> bool:
        """Compare with this replica's cluster id; null on either side skips the check (Q30)."""
        return theirs is not None and self.cluster_id is not None and theirs != self.cluster_id

    def report_foreign_peer(self, peer: int, theirs: str | None = None) -> None:
        """Report a peer of another cluster; fatal until a leader has confirmed our id (Q31)."""
        if not self.is_cluster_id_confirmed:
            self.effect(Stop(f"the leader {peer} belongs to another cluster", peer, theirs))
        elif peer != self._foreign_peer:
            self._foreign_peer = peer
            self.effect(messages.WrongCluster(peer))

    def may_raise_epoch(self, epoch: int, node_id: int) -> bool:
        """Whether a request that names this node may raise the epoch that far; count it if not."""
        added = epoch - self.election.epoch
        if added <= 0:
            return True
        rest = self.epoch_allowance.without(added, self.now)
        if rest is None:
            self.refused_epochs += 1
            self.effect(messages.EpochRefused(node_id, epoch))
            return False
        self.epoch_allowance = rest
        return True

    def adapt_role(self) -> None:
        """Become an observer, or stop being one, if the voter set in force requires it."""
        if self.may_campaign and self.role.name == quorum.OBSERVER:
            self.become(elections.role_in_epoch(self))
        elif not self.may_campaign and self.role.name not in ROLES_OF_NON_VOTERS:
            self.become(quorum.OBSERVER)

    # Messages ------------------------------------------------------------------------------------

    def _on_request(self, message: Request) -> None:
        body = message.body
        if isinstance(body, messages.Fetch):
            self.note_alive(body.replica.id)
            self.role.on_fetch(self, message, body)
        elif isinstance(body, messages.Vote):
            elections.on_vote(self, message.pending, body)
        elif isinstance(body, messages.BeginEpoch):
            elections.on_begin(self, message.pending, body)
        elif isinstance(body, messages.EndEpoch):
            elections.on_end(self, message.pending, body)
        elif isinstance(body, messages.SnapshotFetch):
            self.note_alive(body.replica.id)
            self.role.on_snapshot_fetch(self, message, body)
        elif isinstance(body, messages.ReadOffset):
            self.role.on_read(self, message.pending, body)
        else:
            raise TypeError(f"not a request between the replicas of a quorum: {body!r}")

    def note_alive(self, replica_id: int) -> None:
        """Note that a peer runs: it has sent a request or a response, so it has a process."""
        peer = self.peers.get(replica_id)
        if peer is not None:
            peer.is_down = False

    def _end_request(self, message: Response | NoResponse) -> tuple[Peer, Any]:
        """End a request in flight; the request is None if the role no longer waits for it."""
        peer = self.peer(message.peer)
        if peer.unanswered == message.number:
            peer.unanswered = -1
        if peer.in_flight != message.number:
            return peer, None
        request, peer.in_flight, peer.request = peer.request, -1, None
        return peer, request

    def _on_response(self, message: Response) -> None:
        peer, request = self._end_request(message)
        if request is None:
            return
        peer.failures, peer.is_down = 0, False
        body = message.body
        if body.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            self.effect(
                Stop(
                    f"node {message.peer} refuses this node as not authorized: allow "
                    "ClusterAction to this node in the authorizer of that node"
                )
            )
            return
        peer.is_foreign = body.error == ErrorCode.INCONSISTENT_CLUSTER_ID
        if peer.is_foreign:
            # Epochs and leaders of another cluster mean nothing here.
            elections.on_wrong_cluster(self, message.peer, request, body)
        elif body.epoch < self.election.epoch:
            self.role.on_stale_response(self, message.peer, request)
        else:
            elections.note_removal(self, message.peer, body)
            leader = self._leader_named_by(message.peer, body)
            if not elections.adopt(self, body.epoch, leader):
                self.role.on_response(self, message.peer, request, body)
            # Else the request belongs to an earlier epoch or role.

    def _leader_named_by(self, peer: int, body: Any) -> int:
        """The leader that a response names; -1 if another peer names a leader that is down."""
        leader: int = body.leader_id
        known = self.peers.get(leader)
        # A process that went down in an earlier epoch may have restarted and won a later election.
        is_down = known is not None and known.is_down and known.down_in_epoch == self.election.epoch
        return -1 if is_down and leader != peer and body.epoch == self.election.epoch else leader

    def _on_no_response(self, message: NoResponse) -> None:
        peer, request = self._end_request(message)
        if request is None:
            return
        peer.failures += 1
        self.role.on_no_response(self, message.peer, request)

    def _on_peer_down(self, message: PeerDown) -> None:
        peer = self.peer(message.peer)
        peer.is_down = True
        if message.peer == self.election.leader_id:
            peer.down_in_epoch = self.election.epoch
        self.role.on_peer_down(self, message.peer, this_replica_lags=message.this_replica_lags)

    def _on_flushed(self, message: Flushed) -> None:
        if message.offset > self.log.flushed:
            self.log.flushed = min(message.offset, self.log.end)
            self.role.on_flushed(self)

    def _on_persisted(self, message: ElectionPersisted) -> None:
        self.durable_election_version = max(self.durable_election_version, message.version)
        self.role.on_persisted(self)

    # Proposals -----------------------------------------------------------------------------------

    def propose(
        self, pending: object, count: int, size_bytes: int, payload: Any, now: Now, epoch: int = -1
    ) -> int:
        """Append `count` records as one atomic batch; return an error code.

        A `Proposed` effect completes `pending` once the batch is committed or its outcome unknown.
        With an `epoch`, only the leader of that epoch accepts the proposal: the caller may have
        decided as a leader that has since lost its epoch.
        """
        self.now = now
        error = self.proposal_error(epoch)
        if error:
            return error
        if size_bytes > self.config.max_batch_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE
        assert isinstance(self.role, Leader), "only the leader accepts proposals"
        self.role.append(self, count, size_bytes, payload, None)
        self.role.complete_when_committed(self, pending, self.log.end)
        return ErrorCode.NONE

    def proposal_error(self, epoch: int = -1) -> int:
        """The error code for any proposal now, or NONE."""
        if not isinstance(self.role, Leader) or changes.HAND_OVER in self.timers:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if epoch not in {-1, self.election.epoch}:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE

    def reassign(self, pending: object, targets: tuple[int, ...] | None, now: Now) -> int:
        """Start to move to these voters, or cancel with None (R2); return an error code."""
        return self._change(changes.reassign, pending, targets, now)

    def add_voter_error(self, key: ReplicaKey, now: Now) -> int:
        """The error code that `add_voter` would return for this voter now, or NONE."""
        self.now = now
        if not isinstance(self.role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return changes.add_voter_error(self, self.role, key)

    def add_voter(self, pending: object, voter: Voter, now: Now) -> int:
        return self._change(changes.add_voter, pending, voter, now)

    def remove_voter(self, pending: object, key: ReplicaKey, now: Now) -> int:
        return self._change(changes.remove_voter, pending, key, now)

    def update_voter(self, pending: object, voter: Voter, now: Now) -> int:
        return self._change(changes.update_voter, pending, voter, now)

    def raise_kraft_version(self, pending: object, level: int, now: Now) -> int:
        return self._change(changes.raise_kraft_version, pending, level, now)

    @property
    def reported_voters(self) -> VoterSet:
        """The voters; if this replica leads, completed by what they have reported to it."""
        if isinstance(self.role, Leader):
            return changes.reported_voters(self, self.role)
        return self.log.voter_set

    @property
    def missing_report_reasons(self) -> dict[int, str]:
        """Why the directory ids of voters are unknown, by voter id; only a leader knows."""
        return (
            changes.missing_report_reasons(self, self.role) if isinstance(self.role, Leader) else {}
        )

    def _change(self, change: Callable[..., int], pending: object, what: Any, now: Now) -> int:
        self.now = now
        if not isinstance(self.role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return change(self, self.role, pending, what)

    def resign(self, epoch: int, now: Now) -> int:
        """Stop leading this epoch because the state machine cannot continue; return an error code.

        For an older epoch, which has ended already, a voter returns NONE.
        """
        self.now = now
        if epoch > self.election.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if epoch < self.election.epoch and self.role.name != quorum.OBSERVER:
            return ErrorCode.NONE
        if isinstance(self.role, Leader):
            self.role.resign(self)
        elif self.role.name != quorum.RESIGNED:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def announce_resignation(self, now: Now) -> None:
        """After a restart, a former leader notifies the voters that its epoch has no leader.

        So they need not wait for a timeout. The voters are named as successors in the order of the
        voter set, because it is no longer known which of them has the longest log.
        """
        self.now = now
        if isinstance(self.role, Resigned):
            voters = self.log.voter_set.voters
            self.role.announce_resignation(
                self, tuple([v.key for v in voters if v.key.id != self.me.id])
            )

    def shut_down(self, now: Now) -> None:
        """Shut down cleanly: a leader names its successors and notifies them (Q17).

        A candidate ends its epoch, so that the other voters need not wait for it.
        """
        self.now = now
        if isinstance(self.role, Leader):
            self.role.resign(self)
        elif self.role.name == quorum.CANDIDATE:
            for peer in self.others:
                self.send(peer, messages.EndEpoch(self.cluster_id, -1, self.election.epoch, ()))


_HANDLERS: dict[type, Any] = {
    Request: RaftCore._on_request,
    Response: RaftCore._on_response,
    NoResponse: RaftCore._on_no_response,
    PeerDown: RaftCore._on_peer_down,
    Flushed: RaftCore._on_flushed,
    ElectionPersisted: RaftCore._on_persisted,
    messages.SnapshotTaken: snapshots.on_taken,
    messages.SnapshotInstalled: snapshots.on_installed,
    messages.SnapshotDamaged: snapshots.on_damaged,
}
