"""Leader: the only replica that appends in its epoch.

It counts its own log only as far as it is flushed, serves fetches, announces itself until each
voter has acknowledged it, and resigns when it no longer hears from a majority.
"""

from __future__ import annotations

from collections import deque

from kraftlog.errors import ErrorCode
from kraftlog.raft import changes, fetching, quorum, snapshots
from kraftlog.raft.messages import (
    Append,
    Batch,
    BeginEpoch,
    FetchResult,
    LeaderChange,
    Proposed,
    ReadOffsetResult,
)
from kraftlog.raft.progress import (
    DIVERGED,
    NEEDS_SNAPSHOT,
    REFUSED,
    Obstacle,
    ProgressTable,
)
from kraftlog.raft.roles.resigned import Resigned
from kraftlog.raft.roles.role import Role
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.logstate.voters import ReplicaKey, Voter, VoterSet
    from kraftlog.raft.interfaces import Core
    from kraftlog.raft.messages import Fetch, ReadOffset, Request, SnapshotFetch

#: The size that the LeaderChange batch is assumed to have: the core never encodes records.
LEADER_CHANGE_SIZE_BYTES = 100


class ParkedFetch(Value):
    """A fetch that waits for records or a new high watermark."""

    request: Any
    fetch: Any
    deadline: int


class UnprovedRead(Value):
    """A linearizable read that waits for proof that this replica still leads (P5)."""

    pending: Any
    #: `Leader.events` when it arrived.
    arrived: int
    #: The replica that sent it, if that replica is in this epoch.
    replica: ReplicaKey | None


class Leader(Role):
    """`epoch_start` is the offset of the LeaderChange record, the first of the epoch (Q14)."""

    __slots__ = (
        "acknowledged_by",
        "elected_at",
        "epoch_start",
        "events",
        "parked",
        "progress",
        "proposals",
        "reads",
        "removals_reported_to",
        "reported",
    )
    name = quorum.LEADER

    def __init__(self) -> None:
        self.epoch_start = -1
        #: The monotonic time at which it was elected.
        self.elected_at = 0
        self.progress = ProgressTable()
        #: Voters that have acknowledged this leader (Q15).
        self.acknowledged_by: tuple[int, ...] = ()
        self.parked: tuple[ParkedFetch, ...] = ()
        #: (end offset, pending), oldest first.
        self.proposals: deque[tuple[int, Any]] = deque()
        self.reads: tuple[UnprovedRead, ...] = ()
        #: At kraft.version 0: what voters have reported of themselves (R11), by their ids.
        self.reported: dict[int, Voter] = {}
        #: The removed voters to which a response has reported their removal (R7).
        self.removals_reported_to: tuple[ReplicaKey, ...] = ()
        #: Counts reads and responses to fetches, to order them.
        self.events = 0

    def key(self) -> tuple[Any, ...]:
        return (
            self.epoch_start,
            tuple(sorted(self.acknowledged_by)),
            tuple(sorted([(k.id, p.end_offset) for k, p in self.progress.replicas.items()])),
            tuple(sorted([(w.fetch.replica.id, w.fetch.offset) for w in self.parked])),
            tuple([offset for offset, _ in self.proposals]),
            len(self.reads),
            tuple(sorted([key.id for key in self.removals_reported_to])),
        )

    def enter(self, core: Core) -> None:
        core.attempt = 0
        core.is_cluster_id_confirmed = True
        self.elected_at = core.now.monotonic_ms
        self.epoch_start = core.log.end
        self.append_leader_change(core)
        for peer in core.others:
            self.announce(core, peer)
        self.watch_majority(core)
        self.advance(core)

    def append_leader_change(self, core: Core) -> None:
        """Append the LeaderChange record (Q14).

        If the log has no voters record and starts at 0, it also records the voters and the cluster
        id (R11).
        """
        voters, count = None, 1
        if core.log.voters.latest_offset < 0 and core.log.start == 0:
            cluster_id = core.cluster_id or core.config.fresh_cluster_id
            voters = core.log.voter_set.replace(cluster_id=cluster_id)
            count += 1 + voters.kraft_version  # plus the record of kraft.version
        payload = LeaderChange(core.me.id, core.log.voter_set.ids, core.granted, voters)
        self.append(core, count, LEADER_CHANGE_SIZE_BYTES, payload, voters)

    def has_live_leader(self, core: Core) -> bool:  # noqa: ARG002 - one interface for all roles
        return True

    # Appending -----------------------------------------------------------------------------------

    def complete_when_committed(self, core: Core, pending: object, offset: int) -> None:
        """Complete `pending` once everything before `offset` is committed."""
        if offset <= core.log.high_watermark:
            core.effect(Proposed(pending, ErrorCode.NONE, offset))
        else:
            self.proposals.append((offset, pending))

    def append(
        self,
        core: Core,
        count: int,
        size_bytes: int,
        payload: Any,
        voters: VoterSet | None,
    ) -> None:
        log = core.log
        batch = Batch(
            base_offset=log.end,
            last_offset=log.end + count - 1,
            epoch=core.election.epoch,
            size_bytes=size_bytes,
            voters=voters,
            payload=payload,
        )
        log.append(batch)
        core.effect(Append(batch))
        self.complete_parked(core)

    def on_flushed(self, core: Core) -> None:
        self.advance(core)

    def advance(self, core: Core) -> None:
        """Commit what a majority has on disk, once that has the epoch's first record (Q21)."""
        log = core.log
        mark = log.high_watermark
        end = self.progress.majority_end(log.voters, core.me, log.flushed, mark)
        if end <= self.epoch_start or end <= log.high_watermark:
            return
        fetching.advance(core, end)
        while self.proposals and self.proposals[0][0] <= end:
            offset, pending = self.proposals.popleft()
            core.effect(Proposed(pending, ErrorCode.NONE, offset))
        self.complete_parked(core)
        self.complete_reads(core)
        changes.resign_if_removed(core, self)
        if core.role is self:
            changes.step(core, self)

    # Fetches -------------------------------------------------------------------------------------

    def on_fetch(self, core: Core, request: Request, fetch: Fetch) -> None:
        error = self.fetch_error(core, fetch)
        if error:
            self.note_obstacle(core, fetch, Obstacle(REFUSED, error))
            self.respond(core, request, fetch, error=error)
            return
        # A fetch that skips the checks (Q19) proves neither what the fetcher has, nor that it is
        # in this epoch.
        checked = fetch.epoch >= 0 and fetch.last_epoch >= 0
        if checked:
            self.confirm(fetch.replica, request)
        if self.must_report_removal(core, fetch):
            self.removals_reported_to = (*self.removals_reported_to, fetch.replica)
            error, removed_at = ErrorCode.NOT_LEADER_OR_FOLLOWER, core.log.voters.members_since
            self.respond(core, request, fetch, error=error, removed_at=removed_at)
            return
        if snapshots.is_needed(core, fetch):
            if checked:
                self.progress.note_snapshot_needed(fetch.replica, core.now)
            self.note_obstacle(core, fetch, Obstacle(NEEDS_SNAPSHOT))
            self.respond(core, request, fetch, snapshot=core.log.snapshot)
            return
        diverging = core.log.divergence(fetch.offset, fetch.last_epoch)
        if diverging is not None:
            self.note_obstacle(core, fetch, Obstacle(DIVERGED))
            self.respond(core, request, fetch, diverging=diverging)
            return
        if checked:
            self.note_progress(core, fetch)
        if core.role is not self:
            core.role.on_fetch(core, request, fetch)
            return
        self.complete_reads(core)
        waits = fetch.max_wait_ms > 0 and not self.awaits_proof(core, fetch.replica)
        if waits and not self.has_data(core, fetch):
            self.park(core, request, fetch)
        else:
            self.respond(core, request, fetch)

    def must_report_removal(self, core: Core, fetch: Fetch) -> bool:
        """Whether the fetcher was removed by a committed voter set that its log lacks (R7).

        It is reported once to each former voter, whose next fetch is served as an observer's.
        """
        log, key = core.log, fetch.replica
        if key in self.removals_reported_to or not log.voters.has_removed(key):
            return False
        removed_at = log.voters.members_since
        is_committed = removed_at < log.high_watermark and self.epoch_start < log.high_watermark
        return is_committed and fetch.offset <= removed_at

    def note_obstacle(self, core: Core, fetch: Fetch, obstacle: Obstacle) -> None:
        self.progress.note_obstacle(fetch.replica, core.log.voter_set, obstacle)

    def note_progress(self, core: Core, fetch: Fetch) -> None:
        self.progress.note_fetch(
            fetch.replica, fetch.offset, core.log.end, core.now, core.config.election_timeout_ms
        )
        self.note_acknowledged(core, fetch.replica)
        self.advance(core)
        if core.role is self:
            changes.step(core, self)

    def on_snapshot_fetch(self, core: Core, request: Request, fetch: SnapshotFetch) -> None:
        snapshots.on_fetch(core, self, request, fetch)

    def fetch_error(self, core: Core, fetch: Fetch) -> int:
        """The error code of a fetch, or NONE: the checks of Q18, in order."""
        if core.cluster_id_differs(fetch.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if min(fetch.offset, fetch.epoch + 1, fetch.last_epoch + 1, fetch.max_wait_ms) < 0:
            return ErrorCode.INVALID_REQUEST
        if fetch.last_epoch > fetch.epoch >= 0:
            return ErrorCode.INVALID_REQUEST
        return self.epoch_error(core, fetch.cluster_id, fetch.epoch)

    @staticmethod
    def epoch_error(core: Core, cluster_id: str | None, epoch: int) -> int:
        """The error code of a request with this cluster id and leader epoch, or NONE."""
        if core.cluster_id_differs(cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if 0 <= epoch < core.election.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > core.election.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE

    def has_data(self, core: Core, fetch: Fetch) -> bool:
        """Whether there are records, or a high watermark that the fetcher does not know."""
        reported = self.reported_high_watermark(core)
        return fetch.offset < core.log.end or fetch.high_watermark < min(reported, fetch.offset)

    def respond(
        self,
        core: Core,
        request: Request,
        fetch: Fetch,
        error: int = ErrorCode.NONE,
        **fields: Any,
    ) -> None:
        """Respond with an error, with a divergence or a snapshot, or with records."""
        self.events += 1
        progress = self.progress.replicas.get(fetch.replica)
        if progress is not None:
            progress.note_response(request, self.events)
        if not error and not fields:
            fields = {"offset": fetch.offset, "limit": core.log.end}
            if progress is not None:
                progress.begin_round(core.log.end, core.now)
        election = core.election
        high_watermark = self.reported_high_watermark(core)
        core.reply(
            request.pending,
            FetchResult(error, election.leader_id, election.epoch, high_watermark, **fields),
        )

    def reported_high_watermark(self, core: Core) -> int:
        """The high watermark for responses; -1 until a record of this epoch is committed (Q22).

        Until then others may know a higher one, and Kafka's replicas fail when it goes back.
        """
        committed = core.log.high_watermark
        return committed if committed > self.epoch_start else -1

    def park(self, core: Core, request: Request, fetch: Fetch) -> None:
        deadline = core.now.monotonic_ms + fetch.max_wait_ms
        self.parked = (*self.parked, ParkedFetch(request, fetch, deadline))
        self.watch_parked(core)

    def watch_parked(self, core: Core) -> None:
        if self.parked:
            core.timers["parked"] = min([parked.deadline for parked in self.parked])
        else:
            core.timers.pop("parked", None)

    def complete_parked(self, core: Core, *, of_voters: bool = False) -> None:
        """Respond to parked fetches that have data or are due (Q20).

        With `of_voters`, respond to the parked fetches of all voters, too.
        """
        parked, self.parked = self.parked, ()
        kept = []
        for waiting in parked:
            due = waiting.deadline <= core.now.monotonic_ms
            is_wanted = of_voters and core.log.voter_set.holds(waiting.fetch.replica)
            if is_wanted or due or self.has_data(core, waiting.fetch):
                self.respond(core, waiting.request, waiting.fetch)
            else:
                kept.append(waiting)
        self.parked = (*kept, *self.parked)
        self.watch_parked(core)

    # Reads ---------------------------------------------------------------------------------------

    def on_read(self, core: Core, pending: object, read: ReadOffset) -> None:
        """Serve a read once a majority has shown that it still followed when the read began (P5).

        A voter shows it by sending the read; the other voters show it with their next fetches.
        """
        if core.cluster_id_differs(read.cluster_id):
            self.complete_read(core, pending, ErrorCode.INCONSISTENT_CLUSTER_ID, -1)
            return
        self.events += 1
        replica = read.replica if read.replica_epoch == core.election.epoch else None
        unproved = UnprovedRead(pending, self.events, replica)
        if core.log.high_watermark > self.epoch_start and self.is_proved(core, unproved):
            self.complete_read(core, pending, ErrorCode.NONE, core.log.high_watermark)
            return
        self.reads = (*self.reads, unproved)
        self.complete_parked(core, of_voters=True)
        self.complete_reads(core)

    def confirm(self, key: ReplicaKey, request: Request) -> None:
        """A fetch that follows our response on its channel proves that the response arrived."""
        progress = self.progress.replicas.get(key)
        if progress is None or progress.channel != request.channel:
            return
        if request.number > progress.answered_number >= 0:
            progress.confirmed_at = progress.answered_at

    def awaits_proof(self, core: Core, key: ReplicaKey) -> bool:
        """Whether a read waits for this voter's next fetch."""
        if not self.reads or not core.log.voter_set.holds(key):
            return False
        return self.progress.of(key).confirmed_at <= self.reads[-1].arrived

    def complete_reads(self, core: Core) -> None:
        if not self.reads or core.log.high_watermark <= self.epoch_start:
            return
        done = 0
        for read in self.reads:
            if self.is_proved(core, read):
                self.complete_read(core, read.pending, ErrorCode.NONE, core.log.high_watermark)
                done += 1
            else:
                break  # later reads wait, even one that is proved with the help of its sender
        self.reads = self.reads[done:]

    def is_proved(self, core: Core, read: UnprovedRead) -> bool:
        """Whether a majority has shown that it still followed when the read arrived."""
        voters = core.log.voter_set
        proofs = sum([self.proves(core, voters, voter_id, read) for voter_id in voters.ids])
        return proofs >= voters.majority

    def proves(self, core: Core, voters: VoterSet, replica_id: int, read: UnprovedRead) -> bool:
        """Whether this voter has shown that it still followed when the read arrived."""
        if replica_id == core.me.id:
            return True
        sender = read.replica
        if sender is not None and sender.id == replica_id and voters.holds(sender):
            return True
        progress = self.progress.of_voter(voters, replica_id)
        return progress is not None and progress.confirmed_at > read.arrived

    @staticmethod
    def complete_read(core: Core, pending: object, error: int, offset: int) -> None:
        core.reply(pending, ReadOffsetResult(error=error, offset=offset, **core.leader_and_epoch))

    # Leading -------------------------------------------------------------------------------------

    def announce(self, core: Core, peer: int) -> None:
        """Announce this leader to a voter (Q15)."""
        voter = core.log.voter_set.voter(peer)
        if voter is not None and peer not in self.acknowledged_by:
            core.send(peer, BeginEpoch(core.cluster_id, voter.key, core.me.id, core.election.epoch))

    def note_acknowledged(self, core: Core, key: ReplicaKey) -> None:
        if key.id not in self.acknowledged_by and core.log.voter_set.holds(key):
            self.acknowledged_by = (*self.acknowledged_by, key.id)
            core.timers.pop(f"begin-epoch {key.id}", None)

    def on_response(self, core: Core, peer: int, request: Any, body: Any) -> None:
        if isinstance(request, BeginEpoch) and not body.error:
            voter = core.log.voter_set.voter(peer)
            if voter is not None:
                self.note_acknowledged(core, voter.key)
        else:
            self.on_no_response(core, peer, request)

    def on_no_response(self, core: Core, peer: int, request: Any) -> None:  # noqa: ARG002 - one interface for all roles
        if peer not in self.acknowledged_by:
            core.arm(f"begin-epoch {peer}", core.backoff(core.peer(peer).failures))

    def watch_majority(self, core: Core) -> None:
        """Schedule the next check for a live majority (Q11)."""
        if core.others:
            heard = self.majority_heard_at(core)
            core.timers["majority"] = heard + core.config.fetch_timeout_ms * 3 // 2

    def majority_heard_at(self, core: Core) -> int:
        now = core.now.monotonic_ms
        return self.progress.majority_heard_at(core.log.voter_set, core.me, self.elected_at, now)

    def on_timer(self, core: Core, name: str) -> None:
        if name == "parked":
            self.complete_parked(core)
        elif name.startswith("begin-epoch "):
            self.announce(core, int(name.split()[1]))
        elif name == changes.HAND_OVER:
            self.resign(core)
        elif name == "majority":
            limit = core.config.fetch_timeout_ms * 3 // 2
            if core.now.monotonic_ms - self.majority_heard_at(core) >= limit:
                core.become(quorum.RESIGNED)
            else:
                self.watch_majority(core)

    def leave(self, core: Core) -> None:
        """Fail fetches and reads with NOT_LEADER_OR_FOLLOWER, and proposals as timed out.

        A proposal may still be committed, by the next leader.
        """
        for _, pending in self.proposals:
            core.effect(Proposed(pending, ErrorCode.REQUEST_TIMED_OUT))
        for waiting in self.parked:
            Role.on_fetch(self, core, waiting.request, waiting.fetch)
        for read in self.reads:
            self.complete_read(core, read.pending, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)

    def voters_changed(self, core: Core) -> None:
        """Another voter set is in force: announce this leader to new voters, recount majorities."""
        for peer in core.others:
            if peer not in self.acknowledged_by:
                self.announce(core, peer)
        self.watch_majority(core)
        self.advance(core)

    def hand_over(self, core: Core) -> None:
        """Resign once another voter has the whole log and so can be elected (R5).

        It resigns after an election timeout at the latest, and accepts no proposals until then
        (Ongaro's thesis, 3.10).
        """
        voters, end = core.log.voter_set, core.log.end
        others = [self.progress.of_voter(voters, peer) for peer in core.others]
        if any(progress is not None and progress.end_offset >= end for progress in others):
            self.resign(core)
        elif changes.HAND_OVER not in core.timers:
            core.arm(changes.HAND_OVER, core.config.election_timeout_ms)

    def resign(self, core: Core) -> None:
        """Resign cleanly, naming successors (Q17)."""
        successors = self.successors(core)
        core.become(quorum.RESIGNED)
        role = core.role
        assert isinstance(role, Resigned)
        role.announce_resignation(core, successors)

    def successors(self, core: Core) -> tuple[ReplicaKey, ...]:
        """The other voters, the longest log first (Q17)."""
        voters = core.log.voter_set

        def rank(voter: Voter) -> tuple[int, int]:
            progress = self.progress.of_voter(voters, voter.key.id)
            return -(progress.end_offset if progress else -1), voter.key.id

        others = [voter for voter in voters.voters if voter.key.id != core.me.id]
        return tuple([voter.key for voter in sorted(others, key=rank)])
