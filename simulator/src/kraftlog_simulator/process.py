"""A simulated replica, as the world sees it: the same for bare cores and for whole nodes."""

from __future__ import annotations

from kraftlog.logstate.voters import Endpoint, ReplicaKey
from kraftlog.types import Now
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator import snapshot_host
from kraftlog_simulator.checkers.oracle import NO_CHAIN
from kraftlog_simulator.raft_disk import RaftDisk

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.raft.core import RaftCore
    from kraftlog.raft.messages import ElectionState
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.rng import Rng
    from kraftlog_simulator.snapshot import Snapshot

CLUSTER_ID = "cluster"
#: The wall clocks show this time when a run begins, in ms.
WALL_CLOCK_START_MS = 1_700_000_000_000


def replica_key(replica_id: int, wipes: int) -> ReplicaKey:
    """The key of a replica; a wiped disk has another directory id."""
    return ReplicaKey(replica_id, b"\x01" + bytes(13) + bytes([wipes, replica_id + 1]))


class Replica:
    """What the world sees of a process: its identity, disk and clock, and whether it runs.

    `core` is None while the process is down. `incarnation` counts its starts.
    """

    def __init__(self, world: SimulatedWorld, replica_id: int) -> None:
        self.world = world
        self.id = replica_id
        self.disk = RaftDisk()
        if replica_id < world.setting.voters:
            self.disk.cluster_id = CLUSTER_ID  # formatted with it; observers learn it
        self.core: RaftCore | None = None
        self.incarnation = 0
        #: How often its disk was wiped; how often it lost durable data in any way.
        self.wipes = 0
        self.disk_losses = 0
        #: Its id, and the directory id on its disk.
        self.key = replica_key(replica_id, 0)
        #: The chains of the durable log of each lost directory.
        self.lost_logs: dict[ReplicaKey, list[int]] = {}
        self.wiped_at = -1
        #: The voters before the log has any: formatted into an empty directory, or configured.
        self.bootstrap_voters = world.voters
        self.machine_up = True
        #: Its clock: monotonic ms = base + (virtual ms - since) * rate / 1000.
        self.clock_base = 0
        self.clock_since = 0
        self.clock_rate = 1000
        self.wall_offset_ms = 0
        #: The clock as it was last read, and the virtual time then.
        self.now = Now(0, 0)
        self.now_at = -1
        self.paused = False
        #: What arrived during the pause.
        self.waiting: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._forget_process()

    def _forget_process(self) -> None:
        #: The virtual time of the scheduled poll; -1 if there is none.
        self.wake_at = -1
        #: What the invariants have seen of this incarnation.
        self.seen_role: Any = None
        self.seen_election: Any = None
        self.seen_high_watermark = 0
        self.seen_voters: Any = None
        self.seen_voter_set: Any = None
        self.seen_snapshot: Any = None
        #: The state machine: applying everything before `applied` gives its state.
        self.applied = 0
        self.state = NO_CHAIN
        self.snapshots = snapshot_host.SnapshotWork()

    def __repr__(self) -> str:
        return f"replica {self.id}"

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Its endpoints, if the simulation uses them."""
        return ()

    @property
    def is_controller(self) -> bool:
        """Whether it may become a voter."""
        return True

    # For each kind of replica --------------------------------------------------------------------

    def start(self) -> None:
        raise NotImplementedError

    def end(self, rng: Rng) -> None:
        """The process ends: its disk operation in progress is done, or not, or partly."""
        raise NotImplementedError

    def lose_unsynced(self, rng: Rng) -> int:
        """The machine loses power: unsynced data may be lost; return the number of lost batches."""
        raise NotImplementedError

    def handle(self, message: Any) -> None:
        """Pass a message to the core; a client's request is a `Request`."""
        raise NotImplementedError

    def propose(self, pending: Any, value: int) -> int:
        raise NotImplementedError

    def change(self, kind: str, pending: Any, what: Any) -> int:
        """Call one of the core's voter changes by name; return an error code."""
        raise NotImplementedError

    def run_due_work(self) -> None:
        """Do the work that is due, so that the next request alone causes the next changes."""

    def shut_down(self) -> None:
        raise NotImplementedError

    def take_snapshot(self) -> None:
        raise NotImplementedError

    def disconnected(self, incarnation: int, peer: int, *, refused: bool) -> None:
        """The connection to a peer ended; `refused` if a new one was refused."""
        raise NotImplementedError

    def carry_out(self, effect: Any) -> None:
        """Carry out one effect of the core before a crash."""
        raise NotImplementedError

    def lose_disk(self, kept: int, election: ElectionState | None = None) -> None:  # noqa: ARG002 - subclasses use it
        """Lose the disk of a stopped process, except `kept` batches and an election state.

        Without an election state, only the epoch of the last batch is known.
        """
        assert self.core is None, "a process must be stopped before it loses its disk"
        self.disk_losses += 1
        if kept == 0:
            self.lost_logs[self.key] = self.disk.chains[: self.disk.durable]
            self.wipes += 1
            self.key = replica_key(self.id, self.wipes)
            self.wiped_at = self.world.time
            self.bootstrap_voters = self.world.newest_voters()

    def load(self, snapshot: Snapshot) -> None:
        """The state machine restarts from a snapshot."""
        self.applied, self.state = snapshot.id.offset, snapshot.state

    # Its process ---------------------------------------------------------------------------------

    def kill(self) -> None:
        self.world.note(self, "is killed", "")
        self.core = None
        self.paused = False
        self.waiting.clear()
        self._forget_process()
        self.incarnation += 1

    def resume(self) -> None:
        """All that arrived since the pause happens at once, in order or with the timers last."""
        self.paused = False
        waiting, self.waiting = self.waiting, []
        if self.world.pause_rng.below(2):
            waiting.sort(key=lambda event: event[0] == self.wake)
        for act, arguments in waiting:
            act(*arguments)

    def _start_clock(self) -> None:
        # each process starts at another monotonic time
        self.clock_base = 1 + (self.id * 7919 + self.incarnation * 104_729) % 1_000_000
        self.clock_since = self.world.time
        self.now_at = -1
        self.read_clock()

    def read_clock(self) -> Now:
        time = self.world.time
        if self.now_at != time:
            elapsed = time - self.clock_since
            if self.clock_rate != 1000:
                elapsed = elapsed * self.clock_rate // 1000
            monotonic = self.clock_base + elapsed
            self.now = Now(monotonic, WALL_CLOCK_START_MS + time + self.wall_offset_ms)
            self.now_at = time
        return self.now

    def set_rate(self, rate: int) -> None:
        """Let the clock run at `rate` ‰ from now on, without a jump."""
        self.clock_base = self.read_clock().monotonic_ms
        self.clock_since = self.world.time
        self.clock_rate = rate
        if self.core is not None:
            self.wake_at = -1
            self._arm()

    def wake(self, when: int) -> None:
        """Poll if a timer is due; an event of an earlier schedule does nothing."""
        if self.wake_at != when or self.core is None:
            return
        if self.paused:
            self.waiting.append((self.wake, (when,)))
            return
        self.wake_at = -1
        deadline = self._deadline()
        if deadline is None or deadline > self.read_clock().monotonic_ms:
            self._arm()
            return
        if self.world.tracing:
            self.world.note(self, "polls", "")
        self._poll()

    def _arm(self) -> None:
        """Schedule one event for the earliest timer; one that comes too early is rescheduled."""
        deadline = self._deadline()
        if deadline is None:
            return
        wait = deadline - self.clock_base
        if self.clock_rate != 1000:
            wait = -(-wait * 1000 // self.clock_rate)
        when = max(self.clock_since + wait, self.world.time)
        if self.wake_at < 0 or when < self.wake_at:
            self.wake_at = when
            self.world.schedule(when, self.wake, when)

    def _deadline(self) -> int | None:
        """The deadline of the next timer, by the replica's own clock."""
        raise NotImplementedError

    def _poll(self) -> None:
        """A timer is due."""
        raise NotImplementedError
