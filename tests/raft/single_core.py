"""One core; the test acts as its peers, clock and disk, and gets every effect."""

from __future__ import annotations

from typing import Any

from kraftlog.logstate.epochs import EpochCache
from kraftlog.logstate.voters import ReplicaKey, Voter, VoterHistory, VoterSet
from kraftlog.raft.config import RaftConfig
from kraftlog.raft.core import RaftCore
from kraftlog.raft.log import RaftLog
from kraftlog.raft.messages import (
    Append,
    Batch,
    BeginEpoch,
    ElectionPersisted,
    ElectionState,
    EndEpoch,
    Fetch,
    FetchResult,
    Flushed,
    NoResponse,
    PeerDown,
    PersistElection,
    ReadOffset,
    Reply,
    Request,
    Response,
    Send,
    Vote,
    VoteResult,
)
from kraftlog.raft.progress import Progress
from kraftlog.raft.roles.leader import Leader
from kraftlog.types import Now

CONFIG = RaftConfig(seed=1)
ELECTION_TIMEOUT_MS = CONFIG.election_timeout_ms
FETCH_TIMEOUT_MS = CONFIG.fetch_timeout_ms
#: A leader without fetches of a majority of the voters resigns after this time (Q11).
CHECK_QUORUM_TIMEOUT_MS = FETCH_TIMEOUT_MS * 3 // 2
START_WALL_MS = 1_000_000


def key(replica_id: int) -> ReplicaKey:
    return ReplicaKey(replica_id, bytes(15) + bytes([replica_id]))


def voters_of(*ids: int) -> VoterSet:
    return VoterSet(tuple([Voter(key(voter_id)) for voter_id in ids]))


class SingleCore:
    """Replica 1 of the voters 1, 2, 3, with ten records of epoch 1, in epoch 5.

    With a `slow_disk`, nothing is durable before `persist` or `flush`.
    """

    def __init__(
        self,
        election: ElectionState | None = None,
        *,
        voters: VoterSet | None = None,
        epochs: tuple[tuple[int, int], ...] = ((1, 0),),
        end: int = 10,
        high_watermark: int = 0,
        cluster_id: str | None = "cluster",
        me: ReplicaKey | None = None,
        slow_disk: bool = False,
        config: RaftConfig = CONFIG,
    ) -> None:
        self.now = Now(0, START_WALL_MS)
        self.slow_disk = slow_disk
        initial = voters if voters is not None else voters_of(1, 2, 3)
        log = RaftLog(
            VoterHistory(initial, ((0, initial),) if end else ()),
            0,
            end,
            EpochCache(epochs if end else ()),
            high_watermark,
        )
        start = election if election is not None else ElectionState(5)
        self.core = RaftCore(me or key(1), log, start, config, self.now, cluster_id)
        self.unpersisted: list[int] = []
        self.persisted = start
        self.last_number = 100
        self.core.announce_resignation(self.now)
        self.start_effects = self.step()

    # Events --------------------------------------------------------------------------------------

    def step(self, message: Any = None) -> list[Any]:
        """Handle a message, and return all effects until the disk is idle."""
        if message is not None:
            self.core.handle(message, self.now)
        seen: list[Any] = []
        while effects := self.core.take_effects():
            seen += effects
            for effect in effects:
                self.to_disk(effect)
        return seen

    def to_disk(self, effect: Any) -> None:
        if isinstance(effect, PersistElection):
            self.persisted = effect.state
            self.unpersisted.append(effect.version)
            if not self.slow_disk:
                self.core.handle(ElectionPersisted(effect.version), self.now)
        elif isinstance(effect, Append) and not self.slow_disk:
            self.core.handle(Flushed(effect.batch.last_offset + 1), self.now)

    def persist(self) -> list[Any]:
        return self.step(ElectionPersisted(self.unpersisted[-1]))

    def flush(self, offset: int = -1) -> list[Any]:
        return self.step(Flushed(self.core.log.end if offset < 0 else offset))

    def ask(self, body: Any, channel: Any = 2, number: int = 0) -> list[Any]:
        """Handle a request of a peer; its number stands for its pending response."""
        self.last_number = max(self.last_number + 1, number)
        return self.step(Request(self.last_number, body, channel, self.last_number))

    def response_to(self, body: Any) -> Any:
        """Handle a peer's request; return the only response."""
        (answer,) = replies(self.ask(body))
        return answer

    def respond(self, peer: int, body: Any) -> list[Any]:
        """Handle a peer's response to the request in flight; return the effects."""
        return self.step(Response(peer, self.core.peer(peer).in_flight, body))

    def no_response(self, peer: int) -> list[Any]:
        return self.step(NoResponse(peer, self.core.peer(peer).in_flight))

    def lose_peer(self, peer: int) -> list[Any]:
        return self.step(PeerDown(peer))

    def propose(self, pending: Any, count: int = 1) -> int:
        return self.core.propose(pending, count, 70, "payload", self.now)

    def shut_down(self) -> list[Any]:
        self.core.shut_down(self.now)
        return self.step()

    def wait(self, ms: int) -> list[Any]:
        """Advance the clock in one step."""
        self.pass_unpolled(ms)
        self.core.poll(self.now)
        return self.step()

    def pass_unpolled(self, ms: int) -> None:
        """Advance the clock without a poll, like a host that fires due timers late."""
        self.now = Now(self.now.monotonic_ms + ms, self.now.wall_ms + ms)

    def wait_for(self, timer: str) -> list[Any]:
        """Advance the clock until a timer is due."""
        return self.wait(self.ms_until(timer))

    def ms_until(self, timer: str) -> int:
        return self.core.timers[timer] - self.now.monotonic_ms

    # State ---------------------------------------------------------------------------------------

    @property
    def role(self) -> str:
        return self.core.role.name

    @property
    def state(self) -> tuple[str, int, int, int]:
        """Role, epoch, leader and vote; -1 means none."""
        election = self.core.election
        voted = election.voted.id if election.voted is not None else -1
        return self.role, election.epoch, election.leader_id, voted

    def progress(self, replica: int) -> Progress:
        """The progress of a replica, on a leader."""
        assert isinstance(self.core.role, Leader)
        return self.core.role.progress.of(key(replica))

    # Requests and responses ----------------------------------------------------------------------

    def fetch(self, by: int = 2, **changes: Any) -> Fetch:
        """The fetch of a replica that has the whole log and is in this epoch."""
        log = self.core.log
        fetch = Fetch(
            cluster_id="cluster",
            replica=key(by),
            epoch=self.core.election.epoch,
            offset=log.end,
            last_epoch=log.last_epoch,
            high_watermark=log.high_watermark,
            max_wait_ms=500,
            max_bytes=1000,
        )
        return fetch.replace(**changes)

    def vote(self, by: int = 2, **changes: Any) -> Vote:
        """The vote request of a replica with an equal log, in this epoch."""
        log = self.core.log
        vote = Vote(
            cluster_id="cluster",
            receiver=self.core.me,
            epoch=self.core.election.epoch,
            candidate=key(by),
            last_epoch=log.last_epoch,
            end_offset=log.end,
            pre_vote=False,
        )
        return vote.replace(**changes)

    def begin_epoch(self, leader: int = 2, epoch: int = 5, **changes: Any) -> BeginEpoch:
        return BeginEpoch("cluster", self.core.me, leader, epoch).replace(**changes)

    def fetch_result(self, *batches: Batch, **changes: Any) -> FetchResult:
        """A successful response of the followed leader."""
        election = self.core.election
        answer = FetchResult(0, election.leader_id, election.epoch, 0, batches=batches)
        return answer.replace(**changes)

    def vote_result(self, granted: bool = True, error: int = 0, **changes: Any) -> VoteResult:
        answer = VoteResult(error, -1, self.core.election.epoch, granted)
        return answer.replace(**changes)


# Every role in epoch 5 ---------------------------------------------------------------------------


def unattached(**options: Any) -> SingleCore:
    return SingleCore(ElectionState(5), **options)


def voted(**options: Any) -> SingleCore:
    """A replica that has voted for 3."""
    return SingleCore(ElectionState(5, -1, key(3)), **options)


def follower(leader: int = 2, **options: Any) -> SingleCore:
    """A follower that has not heard from its leader yet."""
    return SingleCore(ElectionState(5, leader), **options)


def follower_after_fetch(leader: int = 2, **options: Any) -> SingleCore:
    """A follower that has just heard from its leader."""
    context = follower(leader, **options)
    context.respond(leader, context.fetch_result())
    return context


def prospective(**options: Any) -> SingleCore:
    context = unattached(**options)
    context.wait_for("election")
    return context


def candidate(**options: Any) -> SingleCore:
    """A candidate in epoch 5."""
    context = SingleCore(ElectionState(4), **options)
    if context.core.others:
        context.wait_for("election")
    for peer in context.core.others:
        if context.role == "prospective":
            context.respond(peer, context.vote_result())
    return context


def leader(**options: Any) -> SingleCore:
    """A leader whose LeaderChange record is at offset 10."""
    context = candidate(**options)
    for peer in context.core.others:
        if context.role == "candidate":
            context.respond(peer, context.vote_result())
    return context


def committed_leader(**options: Any) -> SingleCore:
    """A leader whose first record is committed: its high watermark is 11."""
    context = leader(**options)
    for peer in context.core.others:
        context.ask(context.fetch(peer, max_wait_ms=0), channel=peer)
    return context


def resigned(**options: Any) -> SingleCore:
    """A leader that resigned because no voter fetched from it."""
    context = leader(**options)
    context.wait(CHECK_QUORUM_TIMEOUT_MS)
    return context


def observer(**options: Any) -> SingleCore:
    """Replica 1 is no voter, and knows no leader."""
    return SingleCore(ElectionState(5), voters=voters_of(2, 3, 4), **options)


EVERY_ROLE = {
    "unattached": unattached,
    "voted": voted,
    "prospective": prospective,
    "candidate": candidate,
    "leader": leader,
    "follower": follower,
    "resigned": resigned,
    "observer": observer,
}
VOTER_ROLES = {name: make for name, make in EVERY_ROLE.items() if name != "observer"}


# Effects -----------------------------------------------------------------------------------------


def replies(effects: list[Any]) -> list[Any]:
    return [effect.body for effect in effects if isinstance(effect, Reply)]


def sends(effects: list[Any]) -> dict[int, Any]:
    """The sent requests by peer."""
    return {effect.peer: effect.body for effect in effects if isinstance(effect, Send)}


def of_kind(kind: type, effects: list[Any]) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


def batch(base: int, epoch: int, last: int = -1, voters: VoterSet | None = None) -> Batch:
    return Batch(base, last if last >= 0 else base, epoch, 70, voters)


def end_epoch(leader_id: int, epoch: int, *successors: int) -> EndEpoch:
    return EndEpoch(
        "cluster", leader_id, epoch, tuple([key(successor) for successor in successors])
    )


def read_offset(
    cluster_id: str | None = "cluster", replica: int = 0, epoch: int = -1
) -> ReadOffset:
    """The request of a client, or of a replica that is in this epoch."""
    return ReadOffset(cluster_id, key(replica) if replica else None, epoch)
