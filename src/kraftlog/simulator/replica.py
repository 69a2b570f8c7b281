"""One simulated replica: a process around a `RaftCore`, with a disk, a clock and connections.

It is the host that the core asks for: it writes before it speaks, holds what waits for the disk,
numbers its connections, and tells the core what became of its requests.
"""

from __future__ import annotations

from kraftlog.logstate.epochs import EpochCache
from kraftlog.logstate.voters import ReplicaKey, VoterHistory
from kraftlog.raft.core import RaftCore
from kraftlog.raft.log import RaftLog
from kraftlog.raft.messages import (
    Append,
    ClusterIdKnown,
    Committed,
    DropPrefix,
    ElectionDurable,
    ElectionPersisted,
    ElectionState,
    FetchAnswer,
    Flushed,
    InstallSnapshot,
    LeaderChanged,
    PeerGone,
    PersistElection,
    Proposed,
    Reply,
    Send,
    SnapshotChunk,
    Stop,
    Truncate,
    Unanswered,
    WriteSnapshot,
    WrongCluster,
)
from kraftlog.simulator import snapshot_host
from kraftlog.simulator.oracle import NO_CHAIN
from kraftlog.simulator.raft_disk import RaftDisk
from kraftlog.simulator.violation import Violation
from kraftlog.types import Now
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.simulator.snapshot import Snapshot
    from kraftlog.simulator.world import World

CLUSTER = "cluster"
NO_PROGRESS = "no progress in time"
#: A step has an end: what is done at once brings new effects only a few times over.
MOST_ROUNDS = 1000


def directory_of(replica_id: int, wipes: int) -> ReplicaKey:
    """A wiped disk has another directory id."""
    return ReplicaKey(replica_id, bytes(14) + bytes([wipes, replica_id + 1]))


class Crash(Exception):  # noqa: N818 - a process ends between two of its actions; nothing is wrong
    """Unwinds the stack of a process that is killed in the middle of what it does."""


class Replica:
    """`core` is None while the process is down. Its life is counted in `incarnation`."""

    def __init__(self, world: World, replica_id: int) -> None:
        self.world = world
        self.id = replica_id
        self.disk = RaftDisk()
        if replica_id < world.setting.voters:
            self.disk.cluster_id = CLUSTER  # formatted with it; observers learn it
        self.core: RaftCore | None = None
        self.incarnation = 0
        #: Wiped disks; and with those that went back to an old copy.
        self.wipes = 0
        self.lives = 0
        #: Who it is: its id, and the directory on its disk.
        self.key = directory_of(replica_id, 0)
        #: What each directory held that is gone for good.
        self.lost: dict[ReplicaKey, list[int]] = {}
        self.wiped_at = -1
        #: Who votes, before the log says so: what an empty directory is formatted with, or told.
        self.bootstrap = world.voters
        self.machine_up = True
        #: The clock: monotonic ms = base + (virtual ms - since) * rate / 1000.
        self.clock_base = 0
        self.clock_since = 0
        self.clock_rate = 1000
        self.wall_offset_ms = 0
        self.now = Now(0, 0)
        self.now_at = -1
        self.paused = False
        self.waiting: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._forget_process()

    def _forget_process(self) -> None:
        self.held: list[Any] = []
        self.asking: dict[int, tuple[int, int]] = {}
        self.watched: set[int] = set()
        self.channels: dict[int, tuple[int, int, int]] = {}
        self.wake_at = -1
        self.flushing = False
        self.persisting: list[PersistElection] = []
        self.writing: PersistElection | None = None
        #: What the invariants have seen of this life.
        self.seen_role: Any = None
        self.seen_election: Any = None
        self.seen_high_watermark = 0
        self.seen_voters: Any = None
        self.seen_set: Any = None
        self.seen_snapshot: Any = None
        #: The toy state machine: all before `applied` in order makes its state; the epoch that it
        #: was told to lead, and the one that it will be told to once it has applied enough.
        self.applied = 0
        self.state = NO_CHAIN
        self.serves = -1
        self.to_serve = -1
        self.snapshots = snapshot_host.SnapshotWork()

    def __repr__(self) -> str:
        return f"replica {self.id}"

    # Life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Recover from the disk, which is synced first: what is read counts as durable."""
        world, disk = self.world, self.disk
        self.incarnation += 1
        self.machine_up = True
        disk.sync(len(disk.batches))
        snapshot_host.recover(self)
        epochs = EpochCache()
        log_itself = disk.batches[disk.dropped :]
        for batch in log_itself:
            if batch.epoch > epochs.latest:
                epochs.assign(batch.epoch, batch.base_offset)
        kept = disk.snapshot
        history = VoterHistory(self.bootstrap if kept is None else kept.voters)
        for batch in log_itself:
            if batch.voters is not None:
                history.append(batch.base_offset, batch.voters)
        log = RaftLog(
            history, end=disk.end, epochs=epochs, snapshot=None if kept is None else kept.id
        )
        self.seen_high_watermark = log.high_watermark  # nobody has committed anything by this
        self.clock_base = 1 + (self.id * 7919 + self.incarnation * 104_729) % 1_000_000
        self.clock_since = world.time
        self.now_at = -1
        self.read_clock()
        config = world.setting.raft.replace(seed=world.seed * 1009 + self.id + 1)
        world.note(self, "starts", disk.election)
        self.core = RaftCore(self.key, log, disk.election, config, self.now, disk.cluster_id)
        self.core.announce(self.now)
        world.started(self)
        self.settle()

    def kill(self) -> None:
        self.world.note(self, "is killed", "")
        self.core = None
        self.paused = False
        self.waiting.clear()
        self._forget_process()
        self.incarnation += 1

    def resume(self) -> None:
        """What came meanwhile is all there at once; timers are looked at first, or last."""
        self.paused = False
        waiting, self.waiting = self.waiting, []
        if self.world.pause_chance.below(2):
            waiting.sort(key=lambda event: event[0] == self.wake)
        for act, arguments in waiting:
            act(*arguments)

    def lose_disk(self, kept: int, election: ElectionState | None = None) -> None:
        """While it is down: nothing is left, or so many batches and this election state; without
        one, all that is known is what the batches tell."""
        assert self.core is None, "a process does not survive its disk"
        self.lives += 1
        if kept == 0:
            self.lost[self.key] = self.disk.chains[: self.disk.durable]
            self.wipes += 1
            self.key = directory_of(self.id, self.wipes)
            self.disk.cluster_id = None
            self.wiped_at = self.world.time
            self.bootstrap = self.world.newest_voters()
        self.disk.roll_back(kept)
        old = self.disk.batches[-1].epoch if self.disk.batches else 0
        self.disk.election = election or ElectionState(old)

    def load(self, snapshot: Snapshot) -> None:
        """The state machine begins anew where a snapshot ends."""
        self.applied, self.state = snapshot.id.offset, snapshot.state

    def read_clock(self) -> Now:
        time = self.world.time
        if self.now_at != time:
            passed = time - self.clock_since
            if self.clock_rate != 1000:
                passed = passed * self.clock_rate // 1000
            monotonic = self.clock_base + passed
            self.now = Now(monotonic, 1_700_000_000_000 + time + self.wall_offset_ms)
            self.now_at = time
        return self.now

    def set_rate(self, rate: int) -> None:
        """From now on the clock runs at `rate` ‰; it does not jump."""
        self.clock_base = self.read_clock().monotonic_ms
        self.clock_since = self.world.time
        self.clock_rate = rate
        if self.core is not None:
            self.wake_at = -1
            self._arm()

    # Events ----------------------------------------------------------------------------------

    def handle(self, message: Any) -> None:
        core = self.core
        assert core is not None, "only a running process is told anything"
        if self.world.tracing:
            self.world.note(self, "handles", message)
        core.handle(message, self.read_clock())
        self.settle()

    def wake(self, when: int) -> None:
        """A timer's event; a timer that was moved meanwhile has another."""
        core = self.core
        if self.wake_at != when or core is None:
            return
        if self.paused:
            self.waiting.append((self.wake, (when,)))
            return
        self.wake_at = -1
        deadline = core.deadline()
        now = self.read_clock()
        if deadline is None or deadline > now.monotonic_ms:
            self._arm()
            return
        if self.world.tracing:
            self.world.note(self, "polls", "")
        core.poll(now)
        self.settle()

    def propose(self, slot: Any, value: int) -> int:
        core = self.core
        assert core is not None, "only a running process is asked"
        error = core.propose(slot, 1, 100, value, self.read_clock())
        self.settle()
        return error

    def change(self, kind: str, slot: Any, what: Any) -> int:
        """One of the core's changes of the voters, by its name; the code of a refusal."""
        core = self.core
        assert core is not None, "only a running process is asked"
        error: int = getattr(core, kind)(slot, what, self.read_clock())
        self.settle()
        return error

    def shut_down(self) -> None:
        core = self.core
        assert core is not None, "only a running process is asked"
        core.shut_down(self.read_clock())
        self.settle()

    def _arm(self) -> None:
        """Have one event for the earliest timer; one that comes too early looks again."""
        assert self.core is not None
        timers = self.core.timers
        if not timers:
            return
        deadline = min(timers.values())
        wait = deadline - self.clock_base
        if self.clock_rate != 1000:
            wait = -(-wait * 1000 // self.clock_rate)
        when = max(self.clock_since + wait, self.world.time)
        if self.wake_at < 0 or when < self.wake_at:
            self.wake_at = when
            self.world.at(when, self.wake, when)

    # Effects ---------------------------------------------------------------------------------

    def settle(self) -> None:
        """Carry out what the core wants, until it wants no more; then look at the result."""
        core, world = self.core, self.world
        assert core is not None
        carry = _CARRY
        try:
            rounds = 0
            while effects := core.take_effects():
                rounds += 1
                if rounds > MOST_ROUNDS:
                    raise Violation(NO_PROGRESS, f"replica {self.id} wants ever more: {effects[0]}")
                if world.crash_permille:
                    world.may_crash(self, effects)
                for effect in effects:
                    carry[type(effect)](self, effect)
                self._use_disk(core)
        except Crash:
            return
        self._arm()
        world.check(self, core)

    def carry_out(self, effect: Any) -> None:
        _CARRY[type(effect)](self, effect)

    def _use_disk(self, core: RaftCore) -> None:
        """A disk without latency is done at once; another tells later."""
        disk, world = self.disk, self.world
        if self.persisting and self.writing is None:
            wait = world.disk_ms(self)
            if wait:
                self.writing = self.persisting[-1]
                world.at(world.time + wait, self._written, self.incarnation, self.writing)
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
                world.at(world.time + wait, self._flushed, self.incarnation, disk.cuts, count, end)
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
        self._tell_disk(incarnation, persist)

    def _write_election(self, persist: PersistElection) -> None:
        self.disk.election = persist.state
        self.world.persisted(self, persist.state)

    def _flushed(self, incarnation: int, cuts: int, count: int, end: int) -> None:
        if incarnation != self.incarnation:
            return
        if self.world.disk_fails(self):
            return
        valid = cuts == self.disk.cuts
        if valid:
            self.disk.sync(count)
        self._tell_disk(incarnation, end if valid else None)

    def _tell_disk(self, incarnation: int, what: PersistElection | int | None) -> None:
        """The completion reaches the process: at once, or when it runs again."""
        core = self.core
        if incarnation != self.incarnation or core is None:
            return
        if self.paused:
            self.waiting.append((self._tell_disk, (incarnation, what)))
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
        """Say what was waiting for the disk."""
        if self.held:
            held, self.held = self.held, []
            for effect in held:
                _CARRY[type(effect)](self, effect)

    def _is_durable(self, points: tuple[Any, ...]) -> bool:
        core = self.core
        assert core is not None
        for point in points:
            if isinstance(point, ElectionDurable):
                if point.version > core.durable_version:
                    return False
            elif point.offset > core.log.flushed:
                return False
        return True

    def _send(self, effect: Send) -> None:
        if effect.after and not self._is_durable(effect.after):
            self.held.append(effect)
            return
        if self.disk.download is not None:
            snapshot_host.note_request(self, effect.body)
        self.world.network.request(self, effect)

    def _reply(self, effect: Reply) -> None:
        body = effect.body
        if isinstance(body, FetchAnswer) and body.limit > body.offset >= 0 and not body.batches:
            # The bytes are taken now: later the log may be another.
            body.batches = self.disk.between(body.offset, body.limit, self.world.batches_per_fetch)
        elif isinstance(body, SnapshotChunk) and not body.error:
            snapshot_host.fill(self, body)
        if effect.after and not self._is_durable(effect.after):
            self.held.append(effect)
            return
        slot = effect.slot
        if isinstance(slot, tuple):
            self.world.network.respond(self, slot, body)
        elif isinstance(slot, int):
            self.world.workload.read_answered(slot, body)
        else:
            slot.answer = body  # a stranger's

    def _append(self, effect: Append) -> None:
        world = self.world
        if world.room or world.write_errors:
            world.may_refuse(self)
        disk, batch, oracle = self.disk, effect.batch, world.oracle
        before = disk.chains[-1] if disk.chains else NO_CHAIN
        known = oracle.known
        chain = oracle.chain(before, batch)
        disk.append(batch, chain)
        if chain == known:
            world.appended(self, batch)

    def _truncate(self, effect: Truncate) -> None:
        self.disk.truncate(effect.offset)
        self.world.truncated(self, effect.offset)

    def _persist(self, effect: PersistElection) -> None:
        self.persisting.append(effect)

    def _committed(self, effect: Committed) -> None:
        self.world.apply(self, effect.offset)
        if self.to_serve >= 0:
            self._serve_if_caught_up()

    def _serve_if_caught_up(self) -> None:
        """Q26: the state machine hears that it leads once it has seen its own first record."""
        disk = self.disk
        last = disk.position_before(self.applied)
        if last >= 0 and disk.batches[last].epoch == self.to_serve:
            self.serves, self.to_serve = self.to_serve, -1
            self.world.serves(self, self.serves)

    def _cluster_id_known(self, effect: ClusterIdKnown) -> None:
        self.disk.cluster_id = effect.cluster_id
        self.world.saw("cluster id learned")

    def _proposed(self, effect: Proposed) -> None:
        slot = effect.slot
        if isinstance(slot, int):
            self.world.workload.proposed(slot, effect.error, effect.offset)
        else:
            slot.decided(effect.error, effect.offset)  # an administrator's

    def _leader_changed(self, effect: LeaderChanged) -> None:
        self.world.note(self, "sees leader", effect)
        self.serves, self.to_serve = -1, effect.epoch if effect.leader_id == self.id else -1

    def _wrong_cluster(self, effect: WrongCluster) -> None:  # noqa: ARG002 - effects are carried alike
        self.world.saw("leader of another cluster refused")

    def _stop(self, effect: Stop) -> None:
        raise Violation("stop", f"replica {self.id} gave up: {effect.why}")

    # Connections -----------------------------------------------------------------------------

    def asked(self, peer: int, number: int, *, fresh: bool) -> tuple[int, int, int]:
        """A request leaves: on which connection, a new one if it must be `fresh`.

        One without an answer is noticed in time.
        """
        self.asking[peer] = (number, self.world.time)
        if peer not in self.watched:
            self.watched.add(peer)
            self._watch_at(peer, self.world.time)
        channel = self.channels.get(peer, (self.id, self.incarnation, 0))
        if fresh:
            channel = (*channel[:2], channel[2] + 1)
        self.channels[peer] = channel
        return channel

    def _watch_at(self, peer: int, sent_at: int) -> None:
        when = sent_at + self.world.setting.request_timeout_ms
        self.world.at(when, self._watch, self.incarnation, peer)

    def _watch(self, incarnation: int, peer: int) -> None:
        if incarnation != self.incarnation or self.core is None:
            return
        if self.paused:
            self.waiting.append((self._watch, (incarnation, peer)))
            return
        under_way = self.asking.get(peer)
        if under_way is None:
            self.watched.discard(peer)
            return
        _, sent_at = under_way
        if sent_at + self.world.setting.request_timeout_ms > self.world.time:
            self._watch_at(peer, sent_at)
            return
        self.watched.discard(peer)
        self.disconnected(incarnation, peer, gone=False)

    def disconnected(self, incarnation: int, peer: int, *, gone: bool) -> None:
        """The connection to a peer ended; `gone`: another was refused."""
        if incarnation != self.incarnation or self.core is None:
            return
        if self.paused:
            self.waiting.append((self._disconnected_late, (incarnation, peer, gone)))
            return
        last = self.channels.get(peer, (self.id, self.incarnation, 0))
        self.channels[peer] = (*last[:2], last[2] + 1)
        under_way = self.asking.pop(peer, None)
        if under_way is not None:
            self.handle(Unanswered(peer, under_way[0]))
        if gone and incarnation == self.incarnation:
            self.handle(PeerGone(peer))

    def _disconnected_late(self, incarnation: int, peer: int, gone: bool) -> None:
        self.disconnected(incarnation, peer, gone=gone)


_CARRY: dict[type, Any] = {
    Append: Replica._append,
    Truncate: Replica._truncate,
    Send: Replica._send,
    Reply: Replica._reply,
    PersistElection: Replica._persist,
    ClusterIdKnown: Replica._cluster_id_known,
    Committed: Replica._committed,
    DropPrefix: snapshot_host.drop_prefix,
    WriteSnapshot: snapshot_host.write,
    InstallSnapshot: snapshot_host.install,
    Proposed: Replica._proposed,
    LeaderChanged: Replica._leader_changed,
    Stop: Replica._stop,
    WrongCluster: Replica._wrong_cluster,
}
