"""One simulated replica: a process around a `RaftCore`, with a disk, a clock and connections."""

from __future__ import annotations

from kraftlog.logstate.epochs import EpochCache
from kraftlog.logstate.voters import VoterHistory
from kraftlog.raft.core import RaftCore
from kraftlog.raft.log import RaftLog
from kraftlog.raft.messages import (
    Append,
    ClusterIdKnown,
    Committed,
    DropPrefix,
    ElectionPersisted,
    ElectionState,
    EpochRefused,
    FetchResult,
    Flushed,
    InstallSnapshot,
    LeaderChanged,
    NoResponse,
    PeerDown,
    PersistElection,
    Proposed,
    Reply,
    Send,
    SnapshotChunk,
    Stop,
    Truncate,
    WriteSnapshot,
    WrongCluster,
)
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator import snapshot_host
from kraftlog_simulator.checkers.oracle import NO_CHAIN
from kraftlog_simulator.process import Replica
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from typing import Any

    from kraftlog_simulator.rng import Rng

NO_PROGRESS = "no progress in time"
#: A step is finite: immediate results cause new effects only a few times.
MAX_ROUNDS = 1000


class Crash(Exception):  # noqa: N818 - it ends a process, and reports no error
    """Unwinds the stack of a process that is killed in the middle of its actions."""


class CoreReplica(Replica):
    """A core with a simulated host, for fast runs.

    The host does what the core requires: it writes before it sends, holds messages that wait for
    the disk, numbers its connections, and reports the outcome of requests.
    """

    def _forget_process(self) -> None:
        super()._forget_process()
        #: The messages that wait for the disk.
        self.held: list[Any] = []
        #: By peer: the number of the request in flight, and when it was sent.
        self.in_flight: dict[int, tuple[int, int]] = {}
        #: The peers for which a timeout check is scheduled.
        self.watched_peers: set[int] = set()
        #: By peer: this replica's id, its incarnation, and the number of the connection.
        self.channels: dict[int, tuple[int, int, int]] = {}
        self.flushing = False
        #: The election states that are not on disk yet, and the one that is being written.
        self.persisting: list[PersistElection] = []
        self.writing: PersistElection | None = None
        #: The epoch in which the state machine serves as leader, and the one in which it will serve
        #: once it has applied the first record of that epoch; -1 for none.
        self.serving_epoch = -1
        self.epoch_to_serve = -1

    # Life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Recover from the disk, which is synced first: what is read counts as durable."""
        world, disk = self.world, self.disk
        self.incarnation += 1
        self.machine_up = True
        disk.sync(len(disk.batches))
        snapshot_host.recover(self)
        epochs = EpochCache()
        log_batches = disk.batches[disk.dropped :]
        for batch in log_batches:
            if batch.epoch > epochs.latest:
                epochs.assign(batch.epoch, batch.base_offset)
        kept = disk.snapshot
        history = VoterHistory(self.bootstrap_voters if kept is None else kept.voters)
        for batch in log_batches:
            if batch.voters is not None:
                history.append(batch.base_offset, batch.voters)
        log = RaftLog(
            history, end=disk.end, epochs=epochs, snapshot=None if kept is None else kept.id
        )
        self.seen_high_watermark = log.high_watermark  # a restart commits nothing
        self._start_clock()
        config = world.setting.raft.replace(seed=world.seed * 1009 + self.id + 1)
        world.note(self, "starts", disk.election)
        self.core = RaftCore(self.key, log, disk.election, config, self.now, disk.cluster_id)
        self.core.announce_resignation(self.now)
        world.started(self)
        self.settle()

    def lose_disk(self, kept: int, election: ElectionState | None = None) -> None:
        super().lose_disk(kept, election)
        if kept == 0:
            self.disk.cluster_id = None
        self.disk.roll_back(kept)
        last_epoch = self.disk.batches[-1].epoch if self.disk.batches else 0
        self.disk.election = election or ElectionState(last_epoch)

    def end(self, rng: Rng) -> None:
        if self.writing is not None and rng.below(2):
            self._write_election(self.writing)
        snapshot_host.crash(self, rng)
        self.kill()

    def lose_unsynced(self, rng: Rng) -> int:
        return self.disk.lose_power(rng)

    def take_snapshot(self) -> None:
        snapshot_host.take(self)

    # Events ----------------------------------------------------------------------------------

    def handle(self, message: Any) -> None:
        core = self.core
        assert core is not None, "only a running process handles messages"
        if self.world.tracing:
            self.world.note(self, "handles", message)
        core.handle(message, self.read_clock())
        self.settle()

    def _deadline(self) -> int | None:
        assert self.core is not None
        return min(self.core.timers.values(), default=None)

    def _poll(self) -> None:
        assert self.core is not None
        self.core.poll(self.now)
        self.settle()

    def propose(self, pending: Any, value: int) -> int:
        core = self.core
        assert core is not None, "only a running process gets requests"
        error = core.propose(pending, 1, 100, value, self.read_clock())
        self.settle()
        return error

    def change(self, kind: str, pending: Any, what: Any) -> int:
        """Call one of the core's voter changes by name; return an error code."""
        core = self.core
        assert core is not None, "only a running process gets requests"
        error: int = getattr(core, kind)(pending, what, self.read_clock())
        self.settle()
        return error

    def shut_down(self) -> None:
        core = self.core
        assert core is not None, "only a running process gets requests"
        core.shut_down(self.read_clock())
        self.settle()

    # Effects ---------------------------------------------------------------------------------

    def settle(self) -> None:
        """Carry out the core's effects until there are none; then check the result."""
        core, world = self.core, self.world
        assert core is not None
        carry_out = _CARRY_OUT
        try:
            rounds = 0
            while effects := core.take_effects():
                rounds += 1
                if rounds > MAX_ROUNDS:
                    raise Violation(
                        NO_PROGRESS, f"replica {self.id} has endless effects: {effects[0]}"
                    )
                if world.crash_permille:
                    world.may_crash(self, effects)
                for effect in effects:
                    carry_out[type(effect)](self, effect)
                self._use_disk(core)
        except Crash:
            return
        self._arm()
        world.check(self, core)

    def carry_out(self, effect: Any) -> None:
        _CARRY_OUT[type(effect)](self, effect)

    def _use_disk(self, core: RaftCore) -> None:
        """Write the election state and sync the log if needed; at once if `disk_ms` returns 0."""
        disk, world = self.disk, self.world
        if self.persisting and self.writing is None:
            wait = world.disk_ms(self)
            if wait:
                self.writing = self.persisting[-1]
                world.schedule(world.time + wait, self._written, self.incarnation, self.writing)
            else:
                newest = self.persisting[-1]
                self.persisting.clear()
                self._write_election(newest)
                core.handle(ElectionPersisted(newest.version), self.now)
                self._release()
        count = len(disk.batches)
        if disk.durable < count and not self.flushing:
            wait = world.disk_ms(self)
            end = disk.batches[-1].last_offset + 1
            if wait:
                self.flushing = True
                world.schedule(
                    world.time + wait, self._flushed, self.incarnation, disk.truncations, count, end
                )
            else:
                disk.sync(count)
                core.handle(Flushed(end), self.now)
                self._release()

    def _written(self, incarnation: int, persist: PersistElection) -> None:
        if incarnation != self.incarnation:
            return
        if self.world.disk_fails(self):
            return
        self._write_election(persist)
        self._deliver_completion(incarnation, persist)

    def _write_election(self, persist: PersistElection) -> None:
        self.disk.election = persist.state
        self.world.persisted(self, persist.state)

    def _flushed(self, incarnation: int, truncations: int, count: int, end: int) -> None:
        if incarnation != self.incarnation:
            return
        if self.world.disk_fails(self):
            return
        valid = truncations == self.disk.truncations
        if valid:
            self.disk.sync(count)
        self._deliver_completion(incarnation, end if valid else None)

    def _deliver_completion(self, incarnation: int, what: PersistElection | int | None) -> None:
        """Deliver a completion to the process: at once, or when it resumes.

        `what` is the written election, or the synced end offset: None if the log was truncated
        during the sync.
        """
        core = self.core
        if incarnation != self.incarnation or core is None:
            return
        if self.paused:
            self.waiting.append((self._deliver_completion, (incarnation, what)))
            return
        now = self.read_clock()
        if self.world.tracing:
            self.world.note(self, "wrote", what)
        if isinstance(what, PersistElection):
            self.writing = None
            self.persisting = [p for p in self.persisting if p.version > what.version]
            core.handle(ElectionPersisted(what.version), now)
        else:
            self.flushing = False
            if what is not None:
                core.handle(Flushed(what), now)
        self._release()
        self._use_disk(core)
        self.settle()

    def _release(self) -> None:
        """Send the messages that waited for the disk."""
        if self.held:
            held, self.held = self.held, []
            for effect in held:
                _CARRY_OUT[type(effect)](self, effect)

    def _send(self, effect: Send) -> None:
        assert self.core is not None
        if effect.after and not self.core.is_durable(effect.after):
            self.held.append(effect)
            return
        if self.disk.download is not None:
            snapshot_host.note_request(self, effect.body)
        self.world.network.request(self, effect)

    def _reply(self, effect: Reply) -> None:
        body = effect.body
        if isinstance(body, FetchResult) and body.limit > body.offset >= 0 and not body.batches:
            # The batches are read now: the log may change before the response is sent.
            body.batches = self.disk.between(body.offset, body.limit, self.world.batches_per_fetch)
        elif isinstance(body, SnapshotChunk) and not body.error:
            snapshot_host.fill(self, body)
        assert self.core is not None
        if effect.after and not self.core.is_durable(effect.after):
            self.held.append(effect)
            return
        pending = effect.pending
        if isinstance(pending, tuple):
            self.world.network.respond(self, pending, body)
        elif isinstance(pending, int):
            self.world.workload.read_response(pending, body)
        else:
            pending.response = body  # of a foreign sender or of a reader

    def _append(self, effect: Append) -> None:
        world = self.world
        if world.room or world.write_errors:
            world.may_fail_write(self)
        disk, batch, oracle = self.disk, effect.batch, world.oracle
        before = disk.chains[-1] if disk.chains else NO_CHAIN
        next_chain = oracle.chain_count
        chain = oracle.chain(before, batch)
        disk.append(batch, chain)
        if batch.epoch != self.core.election.epoch:  # type: ignore[union-attr]  # it runs
            disk.from_later_leader.add(chain)
        if chain == next_chain:  # no replica had this batch before
            world.appended(self, batch)

    def _truncate(self, effect: Truncate) -> None:
        self.world.truncates(self, effect.offset)
        self.disk.truncate(effect.offset)

    def _persist(self, effect: PersistElection) -> None:
        self.persisting.append(effect)

    def _committed(self, effect: Committed) -> None:
        self.world.apply(self, effect.offset)
        if self.epoch_to_serve >= 0:
            self._serve_if_caught_up()

    def _serve_if_caught_up(self) -> None:
        """Serve as leader once the first record of the epoch is applied (Q26)."""
        disk = self.disk
        last = disk.position_before(self.applied)
        if last >= 0 and disk.batches[last].epoch == self.epoch_to_serve:
            self.serving_epoch, self.epoch_to_serve = self.epoch_to_serve, -1
            self.world.serves(self, self.serving_epoch)

    def _cluster_id_known(self, effect: ClusterIdKnown) -> None:
        self.disk.cluster_id = effect.cluster_id
        self.world.saw("cluster id learned")

    def _proposed(self, effect: Proposed) -> None:
        pending = effect.pending
        if isinstance(pending, int):
            self.world.workload.proposed(pending, effect.error, effect.offset)
        else:
            pending.decided(effect.error, effect.offset)  # of an administrator

    def _leader_changed(self, effect: LeaderChanged) -> None:
        self.world.note(self, "sees leader", effect)
        self.serving_epoch, self.epoch_to_serve = (
            -1,
            effect.epoch if effect.leader_id == self.id else -1,
        )

    def _wrong_cluster(self, effect: WrongCluster) -> None:  # noqa: ARG002 - one interface for all effects
        self.world.saw("leader of another cluster refused")

    def _epoch_refused(self, effect: EpochRefused) -> None:  # noqa: ARG002 - as above
        self.world.saw("epoch refused")

    def _stop(self, effect: Stop) -> None:
        raise Violation("stop", f"replica {self.id} stopped: {effect.reason}")

    # Connections -----------------------------------------------------------------------------

    def channel_for(self, peer: int, number: int, *, is_new: bool) -> tuple[int, int, int]:
        """Note a request, watch for its timeout, and return its channel: a new one if `is_new`."""
        self.in_flight[peer] = (number, self.world.time)
        if peer not in self.watched_peers:
            self.watched_peers.add(peer)
            self._schedule_timeout_check(peer, self.world.time)
        channel = self.channels.get(peer, (self.id, self.incarnation, 0))
        if is_new:
            channel = (*channel[:2], channel[2] + 1)
        self.channels[peer] = channel
        return channel

    def _schedule_timeout_check(self, peer: int, sent_at: int) -> None:
        when = sent_at + self.world.setting.request_timeout_ms
        self.world.schedule(when, self._check_timeout, self.incarnation, peer)

    def _check_timeout(self, incarnation: int, peer: int) -> None:
        if incarnation != self.incarnation or self.core is None:
            return
        if self.paused:
            self.waiting.append((self._check_timeout, (incarnation, peer)))
            return
        request = self.in_flight.get(peer)
        if request is None:
            self.watched_peers.discard(peer)
            return
        _, sent_at = request
        if sent_at + self.world.setting.request_timeout_ms > self.world.time:
            self._schedule_timeout_check(peer, sent_at)
            return
        self.watched_peers.discard(peer)
        self.disconnected(incarnation, peer, refused=False)

    def disconnected(self, incarnation: int, peer: int, *, refused: bool) -> None:
        """The connection to a peer ended; `refused` if a new one was refused."""
        if incarnation != self.incarnation or self.core is None:
            return
        if self.paused:
            self.waiting.append((self._disconnected_late, (incarnation, peer, refused)))
            return
        last = self.channels.get(peer, (self.id, self.incarnation, 0))
        self.channels[peer] = (*last[:2], last[2] + 1)
        request = self.in_flight.pop(peer, None)
        if request is not None:
            self.handle(NoResponse(peer, request[0]))
        if refused and incarnation == self.incarnation:
            self.handle(PeerDown(peer))

    def _disconnected_late(self, incarnation: int, peer: int, refused: bool) -> None:
        self.disconnected(incarnation, peer, refused=refused)


_CARRY_OUT: dict[type, Any] = {
    Append: CoreReplica._append,
    Truncate: CoreReplica._truncate,
    Send: CoreReplica._send,
    Reply: CoreReplica._reply,
    PersistElection: CoreReplica._persist,
    ClusterIdKnown: CoreReplica._cluster_id_known,
    Committed: CoreReplica._committed,
    DropPrefix: snapshot_host.drop_prefix,
    WriteSnapshot: snapshot_host.write,
    InstallSnapshot: snapshot_host.install,
    Proposed: CoreReplica._proposed,
    LeaderChanged: CoreReplica._leader_changed,
    Stop: CoreReplica._stop,
    WrongCluster: CoreReplica._wrong_cluster,
    EpochRefused: CoreReplica._epoch_refused,
}
