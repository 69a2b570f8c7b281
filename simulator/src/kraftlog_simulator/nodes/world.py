"""The simulated world of whole nodes."""

from __future__ import annotations

from kraftlog.config.read_config import read_config
from kraftlog.logstate.voters import VoterSet
from kraftlog.node.slices import TURN_BUDGET
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.files import Fault
from kraftlog_simulator.nodes.clients import NodeWorkload, values_in
from kraftlog_simulator.nodes.connections import BROKER_PORT
from kraftlog_simulator.nodes.equal_logs import MetadataLogsAreEqual
from kraftlog_simulator.nodes.moving import NewestAddresses
from kraftlog_simulator.nodes.network import ByteNetwork
from kraftlog_simulator.nodes.node_invariants import FilesMatchWrites, StateMatchesLog
from kraftlog_simulator.nodes.replica import LISTENER, PORT, NodeReplica, configured_voters, host_of
from kraftlog_simulator.rng import Rng
from kraftlog_simulator.violation import Violation
from kraftlog_simulator.world import World

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.config.broker import BrokerConfig
    from kraftlog.effects import SendRequest
    from kraftlog.raft.config import RaftConfig
    from kraftlog.raft.messages import Batch
    from kraftlog.types import OffsetAndEpoch
    from kraftlog_simulator.invariants.invariant import Invariant
    from kraftlog_simulator.nodes.node_process import NodeProcess
    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.setting import Setting
    from kraftlog_simulator.snapshot import Snapshot

#: A planned crash comes before one of the next file operations of a node, this many at most.
OPERATIONS_TO_A_CRASH = 12
#: The crash rate per turn of a node, relative to that per step of a core: a node takes fewer turns.
CRASH_FACTOR = 5
#: The rate of crashes during a download, on nodes that may crash at any point; high, because
#: installations are rare.
DOWNLOAD_CRASH_PERMILLE = 300
#: The least time between appends: a commit costs a whole node many times what it costs a core.
APPEND_GAP_MS = 20
#: A fetch of fewer batches than this is a small one.
FEW_BATCHES = 10
#: The I/O threads whose jobs no vote waits for, and by how much they may be slower in a run.
OTHER_IO_THREADS = ("data", "maintenance", "worker")
SLOWER_MS = (0, 10, 300)
#: The assumed size of a batch, where a limit in batches becomes one in bytes.
BATCH_BYTES = 120


def node_setting(setting: Setting, *, changes_voters: bool) -> Setting:
    """The same scenario for nodes: less load, and dynamic voters if it changes voters."""
    dynamic = setting.dynamic or changes_voters
    low, high = setting.append_gap_ms
    if setting.batches_per_fetch < FEW_BATCHES and setting.network_ms[1] > 10:
        # on a slow network, followers with small fetches would never catch up with the clients
        setting = setting.replace(network_ms=(1, 6))
    return setting.replace(
        dynamic=dynamic,
        append_gap_ms=(max(low, APPEND_GAP_MS), max(high, 3 * APPEND_GAP_MS)) if high else (0, 0),
    )


class NodeWorld(World):
    """Every replica is a real node; its messages and files are bytes."""

    replica_type: type[Replica] = NodeReplica
    network_type = ByteNetwork
    workload_type = NodeWorkload
    installs_slowly = False
    more_invariants: tuple[type[Invariant], ...] = (
        FilesMatchWrites,
        MetadataLogsAreEqual,
        StateMatchesLog,
        NewestAddresses,
    )
    network: ByteNetwork

    def __init__(
        self, seed: int, setting: Setting, trace: Callable[[str], None] | None = None
    ) -> None:
        #: The size of the reserve for a full disk.
        self.reserve_bytes = Rng(seed, "reserve").pick([0, 3000])
        #: The size of a segment of the metadata log: one snapshot per segment, or a few.
        self.segment_bytes = Rng(seed, "segments").pick([500, 4000])
        #: The time in a turn for sliced work, and the duration of such a turn. In some runs a turn
        #: does a single step, so that everything else happens between the steps of a change.
        self.sliced_us, self.slice_ms = Rng(seed, "slices").pick([(TURN_BUDGET, 0), (1, 0), (1, 1)])
        self._io_rng = Rng(seed, "I/O threads")
        #: How much longer than a job of the quorum's thread a job of another thread takes, at most.
        self._slower_ms = {thread: self._io_rng.pick(SLOWER_MS) for thread in OTHER_IO_THREADS}
        #: With configured voters, all other nodes are brokers, which can't become voters.
        self.reassigns = setting.dynamic
        #: The configured voters; none if the log has them.
        self.static_voters = VoterSet() if setting.dynamic else configured_voters(setting.voters)
        self._count = setting.voters + setting.observers
        self._settings: dict[int, BrokerConfig] = {}
        #: By end offset and last epoch of a log: its chain.
        self._endings: dict[tuple[int, int], int] = {}
        #: By chain: the offset and the value of each append in its last batch.
        self.values: dict[int, list[tuple[int, int]]] = {}
        #: By value: the offset of its append.
        self.offset_of: dict[int, int] = {}
        super().__init__(seed, setting, trace)
        self._address_invariants = [
            invariant for invariant in self.invariants if isinstance(invariant, NewestAddresses)
        ]

    def sent(self, replica: Replica, to: Replica, body: Any) -> None:
        if self.tracing:
            self.note(replica, f"sends to {to.id}", body)
        super().sent(replica, to, body)

    def requested(self, effect: SendRequest) -> None:
        """A node sends a request to another, of the quorum or not."""

    # Settings of nodes ---------------------------------------------------------------------------

    def settings_of(self, replica: NodeReplica) -> BrokerConfig:
        config = self._settings.get(replica.id)
        if config is None:
            config = self._settings[replica.id] = read_config(self._properties_of(replica), {})[0]
        return config

    def forget_settings(self, replica: NodeReplica) -> None:
        """A node's settings have changed; they take effect at its next start."""
        self._settings.pop(replica.id, None)

    def boot_written(self, replica: NodeReplica, boot_timestamp_ms: int) -> None:
        """A node has written its boot timestamp."""
        for invariant in self._address_invariants:
            invariant.on_boot(replica, boot_timestamp_ms)

    def turn_ended(self, replica: NodeReplica) -> None:
        """A turn of a node is over."""
        for invariant in self._address_invariants:
            invariant.on_turn(replica)

    def is_broker_only(self, replica: Replica) -> bool:
        """In a quorum with configured voters, all other nodes are brokers only."""
        return not self.setting.dynamic and replica.id >= self.setting.voters

    def _properties_of(self, replica: NodeReplica) -> str:
        if self.setting.dynamic:
            servers = ",".join([f"{host_of(i)}:{PORT}" for i in range(self._count)])
            quorum = f"controller.quorum.bootstrap.servers={servers}"
        else:
            voters = ",".join([f"{i}@{host_of(i)}:{PORT}" for i in range(self.setting.voters)])
            quorum = f"controller.quorum.voters={voters}"
        role, listener, port = "controller", LISTENER, replica.port
        if self.is_broker_only(replica):
            role, listener, port = "broker", "PLAINTEXT", BROKER_PORT
        return "\n".join(
            [
                f"process.roles={role}",
                f"node.id={replica.id}",
                f"listeners={listener}://{host_of(replica.id)}:{port}",
                f"controller.listener.names={LISTENER}",
                quorum,
                f"controller.quorum.request.timeout.ms={self.setting.request_timeout_ms}",
                "log.dirs=data",
            ]
        )

    def raft_of(self, replica: NodeReplica) -> RaftConfig:
        setting = self.setting
        raft: RaftConfig = setting.raft.replace(
            seed=self.seed * 1009 + replica.id + 1,
            awaits_commits=self.is_broker_only(replica),
            bootstrap_ids=tuple(range(-2, -2 - self._count, -1)) if setting.dynamic else (),
        )
        if setting.batches_per_fetch < FEW_BATCHES:
            raft = raft.replace(max_fetch_bytes=setting.batches_per_fetch * BATCH_BYTES)
        # A snapshot of a whole node is larger than that of a bare core.
        return raft.replace(max_snapshot_bytes=4 * setting.chunk_bytes)

    def replica_at(self, host: str) -> NodeReplica | None:
        replica = self.replicas.get(int(host.removeprefix("node")))
        assert replica is None or isinstance(replica, NodeReplica)
        return replica

    # Logs ----------------------------------------------------------------------------------------

    def note_chain(self, batch: Batch, chain: int) -> None:
        """A new log has appeared."""
        self._endings[batch.last_offset + 1, batch.epoch] = chain
        values = list(values_in(batch))
        if values:
            self.values[chain] = values
            self.offset_of.update({value: offset for offset, value in values})

    def chain_ending(self, end: OffsetAndEpoch) -> int:
        """The chain of the log that ended at the end of a snapshot."""
        chain = self._endings.get((end.offset, end.epoch))
        if chain is None:
            raise Violation("storage", f"no log ever ended at the end of snapshot {end}")
        return chain

    def snapshot_seen(self, replica: NodeProcess, snapshot: Snapshot) -> None:
        """A complete snapshot has appeared on a disk."""
        self.saw("snapshot taken")
        for invariant in self.invariants:
            if isinstance(invariant, StateMatchesLog):
                invariant.on_snapshot_file(replica, snapshot)

    # Faults --------------------------------------------------------------------------------------

    def plan_file_faults(self, replica: NodeReplica) -> None:
        """Before a turn: plan the faults of its file operations."""
        files = replica.files
        self.cancel_expired_crash(replica)
        if replica.id in self.crash_permille and files.stop_before is None:
            permille = CRASH_FACTOR * self.crash_permille[replica.id]
            operations = OPERATIONS_TO_A_CRASH
            if replica.disk.download is not None:
                permille, operations = DOWNLOAD_CRASH_PERMILLE, 2 * OPERATIONS_TO_A_CRASH
            if self._crash_rng.permille(permille):
                files.stop_before = files.operations + self._crash_rng.below(operations)
        if files.faults:
            files.faults.clear()
        if self._disk_rng.permille(self.write_errors.get(replica.id, 0)):
            files.faults.append(Fault("pwritev"))
        self.limit_space(replica)

    def cancel_expired_crash(self, replica: NodeProcess) -> None:
        """Cancel a planned crash if the fault is over."""
        if replica.id not in self.crash_permille:
            replica.files.stop_before = None

    def limit_space(self, replica: NodeReplica) -> None:
        files, room = replica.files, self.room.get(replica.id)
        if (room is None) != (files.capacity_bytes is None):
            files.capacity_bytes = None
            if room is not None:
                left = max(room - len(replica.disk.batches), 0) * BATCH_BYTES
                files.capacity_bytes = files.used_bytes() + left

    def job_ms(self, replica: NodeProcess, thread: str) -> int:
        """How long a job of an I/O thread takes."""
        slower_ms = 0 if self.healed else self._slower_ms.get(thread, 0)
        return self.disk_ms(replica) + (self._io_rng.below(slower_ms + 1) if slower_ms else 0)

    def sync_fails(self, replica: NodeProcess) -> bool:
        if not self._disk_rng.permille(self.failing_disks.get(replica.id, 0)):
            return False
        self.saw("sync failed")
        return True

    def crashed(self, replica: NodeReplica) -> None:
        """A process, or its machine, ended in the middle of a turn."""
        self.saw("crash between two actions")
        replica.files.stop_before = None
        if replica.core is None:
            replica.files.kill()
            replica.kill()
            self.schedule(self.time + 50 + self._crash_rng.below(2000), self.start, replica)
            return
        self._unchecked_high_watermark = max(
            self._unchecked_high_watermark, replica.core.log.high_watermark
        )
        self._crash(replica)

    def stopped(self, replica: NodeReplica, error: BaseException) -> None:
        """A node has ended because of its disk: restart it later."""
        self.saw("disk full" if "No space" in str(error) else "node stopped by its disk")
        replica.files.stop_before = None
        replica.files.faults.clear()
        if replica.core is None:
            replica.files.kill()
            replica.kill()
        else:
            self._unchecked_high_watermark = max(
                self._unchecked_high_watermark, replica.core.log.high_watermark
            )
            self.kill(replica)
        self.schedule(self.time + 500 + self._disk_rng.below(2000), self.start, replica)
