"""`RaftCore`: one replica of one replicated log. Pure: messages and time in, effects out.

The door: `handle(message, now)`, `poll(now)`, `deadline()`, `take_effects()`. Roles decide what a
message means; this file keeps what outlives a role: the election state, the log as the core knows
it, the peers, the timers. Everything here is plain data, cheap to copy and to compare.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.raft import changes, elections, messages, quorum, snapshots
from kraftlog.raft.config import RaftConfig, jitter
from kraftlog.raft.messages import (
    MAX_EPOCH,
    ElectionDurable,
    ElectionPersisted,
    ElectionState,
    Flushed,
    LeaderChanged,
    LogDurable,
    NoResponse,
    PeerGone,
    PersistElection,
    Reply,
    Request,
    Response,
    Send,
    Stop,
)
from kraftlog.raft.roles import make_role
from kraftlog.raft.roles.leader import Leader
from kraftlog.raft.roles.resigned import Resigned
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.logstate.voters import ReplicaKey, Voter
    from kraftlog.raft.log import RaftLog
    from kraftlog.raft.roles.role import Role
    from kraftlog.types import Now

#: Roles that a replica keeps although it may stand no more: a leader that was removed stays until
#: it has told its successors.
STAYS = {quorum.OBSERVER, quorum.LEADER, quorum.RESIGNED}


#: Timers that one poll fires: far more than there are, also when each arms another.
MOST_FIRED = 1000


class Peer(Value):
    """What this replica keeps of another one, whatever their roles."""

    in_flight: int = -1
    asked: Any = None
    #: The newest request without an answer, wanted or not.
    unanswered: int = -1
    failures: int = 0
    gone: bool = False
    #: Its last answer was that it belongs to another cluster.
    is_foreign: bool = False
    #: The newest epoch that it led when it was found gone.
    gone_from: int = -1


class RaftCore:
    """See the module. Nothing but `handle` and `poll` changes it."""

    def __init__(
        self,
        me: ReplicaKey,
        log: RaftLog,
        election: ElectionState,
        config: RaftConfig,
        now: Now,
        cluster_id: str | None = None,
    ) -> None:
        self.me = me
        self.log = log
        self.election = election
        self.config = config
        self.now = now
        self.cluster_id = cluster_id
        #: Whether the quorum of this cluster id has been heard in this life: this replica leads or
        #: led, or a leader answered its fetch (Q31).
        self.is_confirmed = False
        #: The peer of another cluster that was reported last.
        self._foreign_peer = -1
        self.peers: dict[int, Peer] = {}
        self.timers: dict[str, int] = {}
        self.attempt = 0
        #: Who granted the last vote that was won.
        self.granted: tuple[int, ...] = ()
        #: Versions of the election state: the newest, and the newest that is durable.
        self.version = 0
        self.durable_version = 0
        self._numbers = 0
        self._effects: list[Any] = []
        if log.last_epoch > election.epoch:
            # The file is older than the log: nothing is known of votes in the log's epoch, so
            # none is given in it (Q4).
            self.election = ElectionState(log.last_epoch, -1, me)
            self._persist()
        name = elections.role_at_start(self)
        if self.election.leader_id == me.id:
            self.election = self.led_no_more(self.election)
        self.role: Role = make_role(name)
        self.role.enter(self)

    # The door ------------------------------------------------------------------------------------

    def handle(self, message: Any, now: Now) -> None:
        self.now = now
        _HANDLERS[type(message)](self, message)

    def poll(self, now: Now) -> None:
        """Fire the timers that are due, the earliest first."""
        self.now = now
        fired = 0
        while self.timers:
            deadline, name = min([(when, name) for name, when in self.timers.items()])
            if deadline > now.monotonic_ms:
                return
            fired += 1
            assert fired <= MOST_FIRED, f"no progress in time: “{name}” is due again and again"
            self.fire(name)

    def fire(self, name: str) -> None:
        """One timer by its name: `poll` when it is due, an explorer whenever it likes."""
        del self.timers[name]
        self.role.on_timer(self, name)

    def deadline(self) -> int | None:
        return min(self.timers.values(), default=None)

    def take_effects(self) -> list[Any]:
        taken, self._effects = self._effects, []
        return taken

    def copy(self) -> RaftCore:
        """A core of the same state, for exploring what may happen next."""
        twin = RaftCore.__new__(RaftCore)
        vars(twin).update(vars(self))
        twin.log = self.log.copy()
        twin.peers = {replica_id: peer.replace() for replica_id, peer in self.peers.items()}
        twin.timers = dict(self.timers)
        twin._effects = self._effects[:]
        twin.role = self.role.copy()
        return twin

    def key(self) -> tuple[Any, ...]:
        """What tells two states apart but for times and numbers of requests."""
        election = self.election
        return (
            self.role.name,
            election.epoch,
            election.leader_id,
            election.voted and election.voted.id,
            self.version - self.durable_version,
            self.log.key(),
            tuple(sorted(self.timers)),
            tuple(
                [(i, p.asked and type(p.asked).__name__, p.gone) for i, p in self._known_peers()]
            ),
            self.role.key(),
        )

    def _known_peers(self) -> list[tuple[int, Peer]]:
        """Those of whom there is anything to say."""
        known = [(i, p) for i, p in self.peers.items() if p.asked is not None or p.gone]
        return sorted(known, key=lambda item: item[0])

    # For the roles: what they may do -------------------------------------------------------------

    def effect(self, effect: Any) -> None:
        self._effects.append(effect)

    def become(self, role: str, election: ElectionState | None = None) -> None:
        """Change role and, with it, the election state, which is durable before it is spoken of."""
        old, new = self.election, election or self.election
        if role == quorum.RESIGNED:
            new = self.led_no_more(new)
        quorum.check_transition(self.role.name, role, newer_epoch=new.epoch > old.epoch)
        assert old.epoch <= new.epoch <= MAX_EPOCH, f"epoch {old.epoch} can't become {new.epoch}"
        self.timers.clear()
        for peer in self.peers.values():
            peer.in_flight, peer.asked = -1, None
        if new.epoch > old.epoch and role != quorum.CANDIDATE:
            self.attempt = 0  # failures of its own say nothing about an epoch of somebody else
        if new != old:
            self.election = new
            self._persist()
        self.role.leave(self)
        if (new.epoch, new.leader_id) != (old.epoch, old.leader_id):
            self.effect(LeaderChanged(new.leader_id, new.epoch))
        self.role = make_role(role)
        self.role.enter(self)

    def led_no_more(self, election: ElectionState) -> ElectionState:
        """Who led an epoch names no leader of it any more, and its vote there stays its own."""
        return ElectionState(election.epoch, -1, self.me)

    def vote_for(self, candidate: ReplicaKey) -> None:
        """Note a vote in this epoch; a replica never changes one (Q2)."""
        assert self.election.voted is None, "one vote an epoch"
        voted = self.election.replace(voted=candidate)
        if self.role.name == quorum.UNATTACHED:
            self.become(quorum.VOTED, voted)
        else:
            self.election = voted
            self._persist()

    def _persist(self) -> None:
        self.version += 1
        self.effect(PersistElection(self.version, self.election))

    def is_durable(self, points: tuple[ElectionDurable | LogDurable, ...]) -> bool:
        """Whether an effect that waits for these points may happen now: the host holds the rest."""
        for point in points:
            if isinstance(point, ElectionDurable):
                if point.version > self.durable_version:
                    return False
            elif point.offset > self.log.flushed:
                return False
        return True

    def durable_election(self) -> tuple[ElectionDurable, ...]:
        """What to wait for before anything is said that rests on the election state (Q3)."""
        return (ElectionDurable(self.version),) if self.durable_version < self.version else ()

    def send(self, peer: int, body: Any, after: tuple[LogDurable, ...] = ()) -> None:
        """Ask a peer; one request to each is under way at a time."""
        self._numbers += 1
        state = self.peer(peer)
        fresh = state.unanswered >= 0
        state.in_flight = state.unanswered = self._numbers
        state.asked = body
        self.effect(Send(peer, self._numbers, body, self.durable_election() + after, fresh))

    def reply(self, slot: Any, body: Any) -> None:
        self.effect(Reply(slot, body, self.durable_election()))

    def peer(self, replica_id: int) -> Peer:
        known = self.peers.get(replica_id)
        if known is None:
            known = self.peers[replica_id] = Peer()
        return known

    def arm(self, name: str, in_ms: int) -> None:
        self.timers[name] = self.now.monotonic_ms + in_ms

    def jitter(self, *what: int, below: int) -> int:
        """Jitter: a pure function of this node's seed, the epoch and the attempt."""
        return jitter(self.config.seed, self.election.epoch, self.attempt, *what, below=below)

    def backoff(self, failures: int) -> int:
        """How long to leave a peer alone that did not answer (Q24)."""
        config = self.config
        grown = min(config.retry_backoff_ms << min(failures, 16), config.retry_backoff_max_ms)
        return grown // 2 + self.jitter(failures, below=grown // 2 + 1)

    # What a role need not know -------------------------------------------------------------------

    @property
    def is_voter(self) -> bool:
        return self.log.voter_set.holds(self.me)

    @property
    def may_campaign(self) -> bool:
        """Whether it votes, or did before a removal that is not known to be committed.

        Its log may be the only one that holds this removal and what comes before: then nobody else
        could be elected. It does not count itself (Ongaro's thesis, 4.2.2).
        """
        voters = self.log.voters
        return self.is_voter or (
            voters.members_since >= self.log.high_watermark and voters.before_latest.holds(self.me)
        )

    @property
    def others(self) -> list[int]:
        """The ids of the other voters."""
        return [voter_id for voter_id in self.log.voter_set.ids if voter_id != self.me.id]

    @property
    def leader_and_epoch(self) -> dict[str, Any]:
        """What every answer carries (Q23)."""
        return {"leader_id": self.election.leader_id, "epoch": self.election.epoch}

    def cluster_id_differs(self, theirs: str | None) -> bool:
        """Null skips the check (Q30)."""
        return theirs is not None and self.cluster_id is not None and theirs != self.cluster_id

    def refuse_cluster(self, peer: int) -> None:
        """Q31: a peer of another cluster; fatal until this replica's own quorum was heard."""
        if not self.is_confirmed:
            self.effect(Stop(f"the leader {peer} belongs to another cluster"))
        elif peer != self._foreign_peer:
            self._foreign_peer = peer
            self.effect(messages.WrongCluster(peer))

    def settle_voters(self) -> None:
        """The voter set in force may have changed: become, or cease to be, an observer."""
        if self.may_campaign and self.role.name == quorum.OBSERVER:
            self.become(elections.role_in_epoch(self))
        elif not self.may_campaign and self.role.name not in STAYS:
            self.become(quorum.OBSERVER)

    # Messages ------------------------------------------------------------------------------------

    def _asked(self, message: Request) -> None:
        body = message.body
        if isinstance(body, messages.Fetch):
            self._note_alive(body.replica.id)
            self.role.on_fetch(self, message, body)
        elif isinstance(body, messages.Vote):
            elections.on_vote(self, message.slot, body)
        elif isinstance(body, messages.Begin):
            elections.on_begin(self, message.slot, body)
        elif isinstance(body, messages.End):
            elections.on_end(self, message.slot, body)
        elif isinstance(body, messages.SnapshotFetch):
            self._note_alive(body.replica.id)
            self.role.on_snapshot_fetch(self, message, body)
        elif isinstance(body, messages.ReadOffset):
            self.role.on_read(self, message.slot, body)
        else:
            raise TypeError(f"no request of a quorum: {body!r}")

    def _note_alive(self, replica_id: int) -> None:
        peer = self.peers.get(replica_id)
        if peer is not None:
            peer.gone = False

    def _close(self, message: Response | NoResponse) -> tuple[Peer, Any]:
        """The peer, and what it was asked; None: whoever asked does not want to know any more."""
        peer = self.peer(message.peer)
        if peer.unanswered == message.number:
            peer.unanswered = -1
        if peer.in_flight != message.number:
            return peer, None
        asked, peer.in_flight, peer.asked = peer.asked, -1, None
        return peer, asked

    def _answered(self, message: Response) -> None:
        peer, asked = self._close(message)
        if asked is None:
            return
        peer.failures, peer.gone = 0, False
        body = message.body
        if body.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            self.effect(Stop(f"node {message.peer} says that this node is not authorized"))
            return
        peer.is_foreign = body.error == ErrorCode.INCONSISTENT_CLUSTER_ID
        if peer.is_foreign:
            # Epochs and leaders of another cluster mean nothing here.
            elections.on_wrong_cluster(self, message.peer, asked, body)
        elif body.epoch < self.election.epoch:
            self.role.on_old_answer(self, message.peer, asked)
        elif elections.adopt(self, body.epoch, self._leader_named_by(message.peer, body)):
            return  # what was asked, was asked in another epoch or role
        else:
            self.role.on_answer(self, message.peer, asked, body)

    def _leader_named_by(self, peer: int, body: Any) -> int:
        """Who leads by an answer; hearsay of somebody who is gone does not bring it back."""
        leader: int = body.leader_id
        known = self.peers.get(leader)
        # Gone before, it may have come back and been elected since.
        is_gone = known is not None and known.gone and known.gone_from == self.election.epoch
        return -1 if is_gone and leader != peer and body.epoch == self.election.epoch else leader

    def _unanswered(self, message: NoResponse) -> None:
        peer, asked = self._close(message)
        if asked is None:
            return
        peer.failures += 1
        self.role.on_no_answer(self, message.peer, asked)

    def _peer_gone(self, message: PeerGone) -> None:
        peer = self.peer(message.peer)
        peer.gone = True
        if message.peer == self.election.leader_id:
            peer.gone_from = self.election.epoch
        self.role.on_peer_gone(self, message.peer, lags=message.lags)

    def _flushed(self, message: Flushed) -> None:
        if message.offset > self.log.flushed:
            self.log.flushed = min(message.offset, self.log.end)
            self.role.on_flushed(self)

    def _persisted(self, message: ElectionPersisted) -> None:
        self.durable_version = max(self.durable_version, message.version)
        self.role.on_persisted(self)

    # Proposals -----------------------------------------------------------------------------------

    def propose(
        self, slot: Any, count: int, size_bytes: int, payload: Any, now: Now, epoch: int = -1
    ) -> int:
        """Append `count` records as one batch that is never split; the code of a refusal.

        Once the batch is committed, or can't be said to be, a Proposed effect tells `slot`. With
        an epoch only as the leader of that one: whoever decided as its leader may not have heard
        yet that it is over.
        """
        self.now = now
        error = self.refusal_of_proposal(epoch)
        if error:
            return error
        if size_bytes > self.config.max_batch_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE
        assert isinstance(self.role, Leader), "nobody else's proposals are taken"
        self.role.propose(self, slot, count, size_bytes, payload)
        return ErrorCode.NONE

    def refusal_of_proposal(self, epoch: int = -1) -> int:
        """Why nothing may be proposed now, whatever it is."""
        if not isinstance(self.role, Leader) or changes.LEAVE in self.timers:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if epoch not in {-1, self.election.epoch}:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE

    def reassign(self, slot: Any, targets: tuple[int, ...] | None, now: Now) -> int:
        """Walk to these voters, or with None stop walking (R2); the code of a refusal."""
        return self._change(changes.reassign, slot, targets, now)

    def refusal_of_added(self, key: ReplicaKey, now: Now) -> int:
        """Why `add_voter` would refuse this one; NONE: it would not."""
        self.now = now
        if not isinstance(self.role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return changes.refusal_of_added(self, self.role, key)

    def add_voter(self, slot: Any, voter: Voter, now: Now) -> int:
        return self._change(changes.add_voter, slot, voter, now)

    def remove_voter(self, slot: Any, key: ReplicaKey, now: Now) -> int:
        return self._change(changes.remove_voter, slot, key, now)

    def update_voter(self, slot: Any, voter: Voter, now: Now) -> int:
        return self._change(changes.update_voter, slot, voter, now)

    def _change(self, change: Callable[..., int], slot: Any, what: Any, now: Now) -> int:
        self.now = now
        if not isinstance(self.role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return change(self, self.role, slot, what)

    def resign(self, epoch: int, now: Now) -> int:
        """Lead this epoch no more, as its state machine can't go on; the code of a refusal.

        Of an older epoch: that has come about already.
        """
        self.now = now
        if epoch > self.election.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if epoch < self.election.epoch and self.role.name != quorum.OBSERVER:
            return ErrorCode.NONE
        if isinstance(self.role, Leader):
            self.role.hand_over(self)
        elif self.role.name != quorum.RESIGNED:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def announce(self, now: Now) -> None:
        """After a start: who led when it went down tells the others that nobody leads now.

        They need not wait to find that out. Who of them holds most it no longer knows.
        """
        self.now = now
        if isinstance(self.role, Resigned):
            voters = self.log.voter_set.voters
            self.role.announce(self, tuple([v.key for v in voters if v.key.id != self.me.id]))

    def shut_down(self, now: Now) -> None:
        """Leave in order: a leader names its successors and tells them (Q17)."""
        self.now = now
        if isinstance(self.role, Leader):
            self.role.hand_over(self)
        elif self.role.name == quorum.CANDIDATE:
            for peer in self.others:
                self.send(peer, messages.End(self.cluster_id, -1, self.election.epoch, ()))


_HANDLERS: dict[type, Any] = {
    Request: RaftCore._asked,
    Response: RaftCore._answered,
    NoResponse: RaftCore._unanswered,
    PeerGone: RaftCore._peer_gone,
    Flushed: RaftCore._flushed,
    ElectionPersisted: RaftCore._persisted,
    messages.SnapshotTaken: snapshots.on_taken,
    messages.SnapshotInstalled: snapshots.on_installed,
    messages.SnapshotDamaged: snapshots.on_damaged,
}
