"""The simulated world: virtual time, the queue of events, and the checks after every step.

Nothing polls: messages, timers, disk completions, the workload and faults are the only events, in
the order of (time, sequence). Each event that reaches a core is a step, after which the invariants
see what the step changed.
"""

from __future__ import annotations

from heapq import heappop, heappush

from kraftlog.logstate.voters import Voter, VoterSet, voters_by_id
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog_simulator.administrator import Administrator
from kraftlog_simulator.checkers.oracle import Oracle
from kraftlog_simulator.invariants import HOOKS, make_invariants
from kraftlog_simulator.network import Network
from kraftlog_simulator.process import Replica, replica_key
from kraftlog_simulator.replica import NO_PROGRESS, CoreReplica, Crash
from kraftlog_simulator.rng import Rng
from kraftlog_simulator.violation import Violation, is_failed_expectation
from kraftlog_simulator.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.messages import Batch, ElectionState
    from kraftlog_simulator.faults.fault_plan import Fault
    from kraftlog_simulator.invariants import Invariant
    from kraftlog_simulator.setting import Setting
    from kraftlog_simulator.snapshot import Snapshot
    from kraftlog_simulator.voter_change import VoterChange

FULL_CHECK_EVERY = 1000
#: A run with more events in one millisecond counts as endless: even the end of a pause of all
#: replicas causes far fewer.
MAX_EVENTS_PER_MS = 20_000


class Goal(Value):
    """The condition that a script waits for; one that is not `required` only lets time pass."""

    what: str
    met: Any
    within_ms: int
    required: bool = True


def time_passes(ms: int) -> Goal:
    """The goal of a script that only lets time pass."""
    return Goal("time passes", None, ms, required=False)


def first_voters(setting: Setting) -> VoterSet:
    """The voters of an empty log, known by id and directory id, or by id alone."""
    ids = range(setting.voters)
    if setting.dynamic:
        return VoterSet(tuple([Voter(replica_key(replica_id, 0)) for replica_id in ids]))
    return voters_by_id(*ids)


class World:
    """The simulated world; `note` writes the trace and `saw` counts rare situations."""

    replica_type: type[Replica] = CoreReplica
    network_type: type[Network] = Network
    workload_type: type[Workload] = Workload
    administrator_type: type[Administrator] = Administrator
    #: Whether other events happen while a snapshot is installed.
    installs_slowly = True
    #: Whether target voters can be set (R2).
    reassigns = True
    #: Invariants of this kind of replica besides those of the quorum.
    more_invariants: tuple[type[Invariant], ...] = ()

    def __init__(
        self, seed: int, setting: Setting, trace: Callable[[str], None] | None = None
    ) -> None:
        self.seed = seed
        self.setting = setting
        #: Virtual time in ms.
        self.time = 0
        self.sequence = 0
        self.steps = 0
        self.handled = 0
        #: How many events were handled before the current millisecond.
        self._handled_before = 0
        self.events: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self.tracing = trace is not None
        self._trace = trace
        #: The faults of this run, none of which strikes once `healed`.
        self.plan: tuple[Fault, ...] = ()
        self.healed = False
        self.elections = 0
        self.batches_per_fetch = setting.batches_per_fetch
        self.coverage: dict[str, int] = {}
        #: Changes whenever a goal might have been reached.
        self.progress = 0
        #: The voters of an empty log.
        self.voters = first_voters(setting)
        self.oracle = Oracle()
        self._disk_rng = self.rng("disk")
        self._disk_ms = setting.disk_ms
        self.pause_rng = self.rng("pauses")
        self.snapshot_rng = self.rng("snapshots")
        self._crash_rng = self.rng("crash points")
        #: By replica: the mean extra time of a disk operation, in ms.
        self.slow_disks: dict[int, int] = {}
        #: By replica: how many of a thousand syncs fail, steps crash, and writes fail.
        self.failing_disks: dict[int, int] = {}
        self.crash_permille: dict[int, int] = {}
        self.write_errors: dict[int, int] = {}
        #: How many batches each full disk holds.
        self.room: dict[int, int] = {}
        #: The highest high watermark of processes that crashed before it was checked.
        self._unchecked_high_watermark = 0
        #: The epoch of each replica that is leader after its last step.
        self.leaders: dict[int, int] = {}
        self.replicas = {
            replica_id: self.replica_type(self, replica_id)
            for replica_id in range(setting.voters + setting.observers)
        }
        self.network = self.network_type(self)
        self.workload = self.workload_type(self)
        self.administrator = self.administrator_type(self)
        self.invariants = make_invariants(self, self.more_invariants)
        self._listeners = {
            hook: tuple(
                [
                    getattr(invariant, hook)
                    for invariant in self.invariants
                    if invariant.implements(hook)
                ]
            )
            for hook in HOOKS
        }

    def add_listener(self, hook: str, listener: Callable[..., None]) -> None:
        """Call `listener` after the invariants' hook of this name."""
        self._listeners[hook] += (listener,)

    # Time ------------------------------------------------------------------------------------

    def schedule(self, when: int, act: Callable[..., None], *arguments: Any) -> None:
        self.sequence += 1
        heappush(self.events, (when, self.sequence, act, arguments))

    def play(self, script: Iterator[Goal]) -> None:
        """Reach the goals of a script in order."""
        if self.setting.in_bytes:
            self.note(None, "messages", "cross as bytes")
            self.saw("messages as bytes")
        try:
            for goal in script:
                self.run_until(goal)
            self.full_check(final=True)
        except Violation:
            raise
        except Exception as error:  # an exception in a core is a bug, whatever its type
            kind = "expectation" if is_failed_expectation(error) else "exception"
            raise Violation(kind, f"{type(error).__name__}: {error}") from error

    def run_until(self, goal: Goal) -> None:
        """Run events until the goal is met, or its time is over."""
        events, end, met = self.events, self.time + goal.within_ms, goal.met
        seen = -1
        while True:
            if met is not None and self.progress != seen:
                seen = self.progress
                if met():
                    return
            if not events or events[0][0] > end:
                break
            when, _, act, arguments = heappop(events)
            if when > self.time:
                self.time, self._handled_before = when, self.handled
            elif self.handled - self._handled_before > MAX_EVENTS_PER_MS:
                raise Violation(NO_PROGRESS, f"{MAX_EVENTS_PER_MS} events at {when} ms without end")
            self.handled += 1
            act(*arguments)
        self.time = end
        if goal.required and not met():
            raise Violation("liveness", f"not within {goal.within_ms} ms: {goal.what}")

    # What replicas report --------------------------------------------------------------------

    def rng(self, concern: str) -> Rng:
        return Rng(self.seed, concern)

    def saw(self, what: str) -> None:
        self.coverage[what] = self.coverage.get(what, 0) + 1

    def note(self, replica: Replica | None, what: str, detail: Any) -> None:
        if self._trace is not None:
            who = "-" if replica is None else replica.id
            self._trace(f"{self.time} {self.steps} {who} {what} {detail!r}")

    def check(self, replica: Replica, core: RaftCore) -> None:
        """A step is over: show the invariants what it changed."""
        self.steps += 1
        if core.role is not replica.seen_role or core.election is not replica.seen_election:
            self.progress += 1
            for listener in self._listeners["on_role"]:
                listener(replica, core)
            self._note_coverage(replica, core)
            if core.role.name == "leader":
                self.leaders[replica.id] = core.election.epoch
            else:
                self.leaders.pop(replica.id, None)
            replica.seen_role, replica.seen_election = core.role, core.election
        log = core.log
        high_watermark = log.high_watermark
        if high_watermark != replica.seen_high_watermark:
            self.progress += 1
            for listener in self._listeners["on_commit"]:
                listener(replica, core, high_watermark)
            replica.seen_high_watermark = high_watermark
        if log.snapshot is not replica.seen_snapshot:
            self.progress += 1
            replica.seen_snapshot = log.snapshot
            for listener in self._listeners["on_snapshot"]:
                listener(replica, core)
        if log.voters.entries is not replica.seen_voters:
            self._see_voters(replica, core)
        if self.steps % FULL_CHECK_EVERY == 0:
            self.full_check()

    def _see_voters(self, replica: Replica, core: RaftCore) -> None:
        """The voter set in force may have changed."""
        self.progress += 1
        for listener in self._listeners["on_voters"]:
            listener(replica, core)
        before, entries = replica.seen_voters, core.log.voters.entries
        newest = entries[-1][0] if entries else -1
        if before and before[-1][0] >= core.log.start and newest < before[-1][0]:
            self.saw("voter change rolled back by truncation")
        replica.seen_voters, replica.seen_voter_set = entries, core.log.voter_set

    def _note_coverage(self, replica: Replica, core: RaftCore) -> None:
        name = core.role.name
        before = None if replica.seen_role is None else replica.seen_role.name
        if name == "leader" and before != "leader":
            self.elections += 1
            if self.elections > 1:
                self.saw("leader change")
                if core.log.voters.latest_offset >= max(core.log.high_watermark, 1):
                    self.saw("leader change during a voter change")
        elif name == "resigned" and before == "leader":
            self.saw("leader resigned" if core.is_voter else "leader removed itself")
            if not core.role.successors:  # type: ignore[attr-defined]  # it is Resigned
                self.saw("zombie leader resigned")
        elif before == "observer" and name != before:
            self.saw("observer promoted")
        elif name == "observer" and before not in {None, name}:
            self.saw("voter became an observer")

    def full_check(self, *, final: bool = False) -> None:
        for listener in self._listeners["on_full_check"]:
            listener()
        if final:
            for listener in self._listeners["on_end"]:
                listener()

    def started(self, replica: Replica) -> None:
        self.progress += 1
        for listener in self._listeners["on_start"]:
            listener(replica)

    def persisted(self, replica: Replica, state: ElectionState) -> None:
        for listener in self._listeners["on_persist"]:
            listener(replica, state)

    def sent(self, replica: Replica, to: Replica, body: Any) -> None:
        for listener in self._listeners["on_send"]:
            listener(replica, to, body)

    def received(self, replica: Replica, sender: Replica, body: Any) -> None:
        for listener in self._listeners["on_receive"]:
            listener(replica, sender, body)

    def appended(self, replica: Replica, batch: Batch) -> None:
        for listener in self._listeners["on_append"]:
            listener(replica, batch)

    def change_committed(self, change: VoterChange, end_offset: int) -> None:
        """A change was reported to an administrator as committed."""
        self.saw(f"change made: {change.kind}")
        for listener in self._listeners["on_change"]:
            listener(change, end_offset)

    def truncates(self, replica: Replica, offset: int) -> None:
        self.saw("truncation")
        for listener in self._listeners["on_truncate"]:
            listener(replica, offset)

    def apply(self, replica: Replica, offset: int) -> None:
        for listener in self._listeners["on_apply"]:
            listener(replica, offset)
        disk = replica.disk
        replica.applied = offset
        replica.state = disk.chains[disk.position_before(offset)]

    def loads(self, replica: Replica, snapshot: Snapshot) -> None:
        """A snapshot is about to replace a log."""
        for listener in self._listeners["on_load"]:
            listener(replica, snapshot)

    def serves(self, replica: Replica, epoch: int) -> None:
        for listener in self._listeners["on_serve"]:
            listener(replica, epoch)

    # Disks and processes ---------------------------------------------------------------------

    def disk_ms(self, replica: Replica) -> int:
        low, high = self._disk_ms
        slow = self.slow_disks.get(replica.id, 0) if self.slow_disks else 0
        if high == 0 and not slow:
            return 0
        wait = self._disk_rng.between(low, high)
        return wait + self._disk_rng.long_tail(slow) if slow else wait

    def disk_fails(self, replica: Replica) -> bool:
        """Whether a sync fails, which ends the process: unsynced data is lost."""
        if not self._disk_rng.permille(self.failing_disks.get(replica.id, 0)):
            return False
        self.saw("sync failed")
        self.lose_power(replica)
        self.schedule(self.time + 100 + self._disk_rng.below(2000), self.start, replica)
        return True

    def may_fail_write(self, replica: Replica) -> None:
        """End the process before it writes a batch, if its disk is full or the write fails."""
        room = self.room.get(replica.id)
        is_full = room is not None and len(replica.disk.batches) >= room
        rate = self.write_errors.get(replica.id, 0)
        if not is_full and not self._disk_rng.permille(rate):
            return
        self.saw("disk full" if is_full else "write failed")
        assert replica.core is not None
        self._unchecked_high_watermark = max(
            self._unchecked_high_watermark, replica.core.log.high_watermark
        )
        self.lose_power(replica)
        self.schedule(self.time + 100 + self._disk_rng.below(2000), self.start, replica)
        raise Crash

    def may_crash(self, replica: Replica, effects: list[Any]) -> None:
        """Maybe crash the process between two effects; only the effects before the crash happen."""
        if not self._crash_rng.permille(self.crash_permille.get(replica.id, 0)):
            return
        self.saw("crash between two actions")
        assert replica.core is not None
        self._unchecked_high_watermark = max(
            self._unchecked_high_watermark, replica.core.log.high_watermark
        )
        for effect in effects[: self._crash_rng.below(len(effects) + 1)]:
            replica.carry_out(effect)
        self._crash(replica)
        raise Crash

    def crashes_at(self, replica: Replica, permille: int) -> bool:
        """Whether the process crashes in the middle of a rare action, at this rate."""
        if replica.id not in self.crash_permille or not self._crash_rng.permille(permille):
            return False
        self._crash(replica)
        return True

    def _crash(self, replica: Replica) -> None:
        if self._crash_rng.below(2):
            self.lose_power(replica)
        else:
            self.kill(replica)
        self.schedule(self.time + 50 + self._crash_rng.below(2000), self.start, replica)

    def kill(self, replica: Replica) -> None:
        """The process ends; its machine, and unsynced writes, survive."""
        if replica.core is None:
            return
        self._end(replica)
        self.network.process_ended(replica)

    def lose_power(self, replica: Replica) -> None:
        """The machine loses power: unsynced writes may be lost."""
        if replica.core is None:
            return
        self._end(replica)
        replica.machine_up = False
        if replica.lose_unsynced(self._disk_rng):
            self.saw("unsynced batches lost")

    def _end(self, replica: Replica) -> None:
        self.progress += 1
        self.leaders.pop(replica.id, None)
        replica.end(self._disk_rng)

    def start(self, replica: Replica) -> None:
        if replica.core is None:
            replica.start()

    # For scripts -----------------------------------------------------------------------------

    @property
    def running(self) -> list[Replica]:
        return [replica for replica in self.replicas.values() if replica.core is not None]

    def leader(self) -> Replica | None:
        """The leader of the newest epoch that has one."""
        if not self.leaders:
            return None
        newest = max(self.leaders, key=self.leaders.__getitem__)
        return self.replicas[newest]

    def agreed_leader(self) -> Replica | None:
        """The leader that all replicas follow in its epoch, except those not `able_to_follow`."""
        leader = self.leader()
        if leader is None or leader.core is None:
            return None
        epoch = leader.core.election.epoch
        for replica in self.able_to_follow:
            assert replica.core is not None
            election = replica.core.election
            if election.epoch != epoch or election.leader_id != leader.id:
                return None
        return leader

    @property
    def known_committed_end(self) -> int:
        """The highest offset that any replica, running or crashed, knew to be committed."""
        return max(self.oracle.committed_end, self._unchecked_high_watermark)

    def newest_voters(self) -> VoterSet:
        """The newest committed voter set."""
        recorded = [b.voters for b in self.oracle.committed_batches if b.voters is not None]
        return recorded[-1] if recorded else self.voters

    def high_watermarks(self) -> dict[int, int]:
        """The high watermarks of the running replicas that are `able_to_follow`."""
        return {r.id: r.core.log.high_watermark for r in self.able_to_follow if r.core is not None}

    @property
    def able_to_follow(self) -> list[Replica]:
        """The running replicas, except non-voters in a newer epoch than the leader's.

        A voter with a leader does not adopt the epoch of a non-voter (R8). So the non-voter's
        fetches fail until an election reaches a higher epoch than its own.
        """
        leader = self.leader()
        if leader is None or leader.core is None:
            return self.running
        epoch, voters = leader.core.election.epoch, leader.core.log.voter_set
        return [
            replica
            for replica in self.replicas.values()
            if (core := replica.core) is not None
            and (core.election.epoch <= epoch or voters.holds(replica.key))
        ]
