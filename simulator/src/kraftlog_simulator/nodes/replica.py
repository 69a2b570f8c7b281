"""A replica that is a whole node: the real `Node`, `Runner` and storage, on files in memory."""

from __future__ import annotations

from random import Random

from kraftlog.config.endpoints import QuorumVoter
from kraftlog.effects import BootTimestampWritten
from kraftlog.errors import StorageError
from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter, VoterSet
from kraftlog.node.config import BrokerAddress, NodeConfig
from kraftlog.node.controller.active_controller import first_levels
from kraftlog.node.node import Node
from kraftlog.node.quorum.batches import METADATA_LOG
from kraftlog.node.quorum.requests import VERSIONS, request_to_wire
from kraftlog.node.quorum.responses import response_from_wire
from kraftlog.node.quorum.snapshotter import SnapshotPolicy
from kraftlog.runner.quorum_io import open_quorum
from kraftlog.runner.runner import Runner
from kraftlog.storage.directory import LogDirectory
from kraftlog.storage.format import DirectoryFormat, format_directory, is_formatted
from kraftlog.types import OffsetAndEpoch
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog_simulator.files import MemoryFiles, PowerLost
from kraftlog_simulator.nodes import disks
from kraftlog_simulator.nodes.clients import Proposals, change_voters
from kraftlog_simulator.nodes.connections import (
    BROKER_PORT,
    CONTROLLER_PORT,
    ClientEnd,
    VirtualPeers,
)
from kraftlog_simulator.nodes.io_thread import VirtualIOThreads, VirtualWorkerProcess
from kraftlog_simulator.nodes.log_view import DIRECTORY, LogView
from kraftlog_simulator.nodes.node_process import NodeProcess
from kraftlog_simulator.process import CLUSTER_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from typing import Any

    from kraftlog.raft.messages import ElectionState, Request
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message
    from kraftlog_simulator.nodes.world import NodeWorld
    from kraftlog_simulator.rng import Rng

LISTENER, PORT = "CONTROLLER", CONTROLLER_PORT
#: A snapshot is due as soon as there is any new record.
ALWAYS_DUE = SnapshotPolicy(after_bytes=0, after_ms=0)
#: How long after a requested snapshot the next is taken.
NEXT_SNAPSHOT_MS = 400


def host_of(replica_id: int) -> str:
    return f"node{replica_id}"


class ObservedNode(Node):
    """Reports to its `watcher` the state machine's notifications, and some other events."""

    watcher: NodeReplica | None = None

    def replay_in_steps(
        self, records: Sequence[Message], last_offset: int
    ) -> Generator[int, None, None]:
        yield from super().replay_in_steps(records, last_offset)
        if self.watcher is not None:
            self.watcher.notifications.append(("applied", last_offset + 1))

    def reload(self, records: Iterable[Message], last_offset: int) -> None:
        super().reload(records, last_offset)
        assert self.watcher is not None
        self.watcher.notifications = [("installed", last_offset + 1)]

    def handle(self, message: Any, now: Now) -> None:
        super().handle(message, now)
        if self.watcher is not None and isinstance(message, BootTimestampWritten):
            self.watcher.world.boot_written(self.watcher, message.boot_timestamp_ms)

    def take_effects(self) -> list[Any]:
        effects = super().take_effects()
        if self.watcher is not None:
            self.watcher.before_effects(effects)
        return effects

    def wait(self, operation: Any, deadline_ms: int) -> None:
        super().wait(operation, deadline_ms)
        if self.watcher is not None:
            self.watcher.delays(operation)

    def became_leader(self, epoch: int, now: Now) -> None:
        super().became_leader(epoch, now)
        if self.watcher is not None:
            self.watcher.notifications.append(("serves", epoch))


class NodeReplica(NodeProcess):
    """A whole node; `node` exists while the process runs, and the world reads its files."""

    world: NodeWorld

    def __init__(self, world: NodeWorld, replica_id: int) -> None:
        self.files = MemoryFiles()
        #: Where its controller listens, and where it has listened before.
        self.port = PORT
        self._former_ports: set[int] = set()
        super().__init__(world, replica_id)
        self.disk = LogView(self)
        self.disk.cluster_id = CLUSTER_ID
        self._last_id = 0

    def _forget_process(self) -> None:
        super()._forget_process()
        self._node: ObservedNode | None = None
        #: The notifications of the state machine in this turn: "applied" or "installed" with the
        #: end offset, or "serves" with the epoch.
        self.notifications: list[tuple[str, int]] = []
        self.ready_connections = {}
        self.held_connections = {}
        self.proposals = Proposals(self)
        self._is_turn_scheduled = False

    @property
    def node(self) -> ObservedNode:
        assert self._node is not None, "only a running process has a node"
        return self._node

    # Life ----------------------------------------------------------------------------------------

    def start(self) -> None:
        world = self.world
        self.incarnation += 1
        self.machine_up = True
        self.files.starts += 1
        world.plan_file_faults(self)
        self._start_clock()
        world.note(self, "starts", self.disk.election)
        try:
            self._open()
        except PowerLost:
            self.crash()
            return
        except (StorageError, OSError) as error:
            self.stopped(error)
            return
        world.started(self)
        self.turn("begins", _nothing)

    def _open(self) -> None:
        world, files = self.world, self.files
        config = world.settings_of(self)
        if not files.exists(DIRECTORY) or not is_formatted(files, DIRECTORY):
            self._format()
        directory = LogDirectory(files, DIRECTORY, directory_id=self.key.directory_id)
        others, lost = self._open_more_directories()
        for opened in (directory, *others):
            opened.keep_reserve(world.reserve_bytes)
        self.io_threads = VirtualIOThreads(self)
        self.peers = VirtualPeers(self, self._notify)
        self.runner = Runner(
            files,
            directory,
            self.io_threads,
            VirtualWorkerProcess(self),
            self.peers,
            self._log_line,
            directories=(directory, *others),
            lost=lost,
            metadata_segment_bytes=world.segment_bytes,
        )
        metadata = open_quorum(directory, world.static_voters, self._log_line)
        self.disk.begin(directory.logs[METADATA_LOG])
        self.seen_high_watermark = metadata.log.high_watermark
        self.applied = metadata.applied
        if self.applied:
            assert self.disk.snapshot is not None, "records applied at a start are in a snapshot"
            self.load(self.disk.snapshot)
        seed = f"{world.seed}/{self.id}/{self.incarnation}"
        node = ObservedNode(
            NodeConfig(
                cluster_id=CLUSTER_ID,
                directory_id=self.key.directory_id,
                settings=config,
                raft=world.raft_of(self),
                addresses=(BrokerAddress("PLAINTEXT", host_of(self.id), BROKER_PORT),),
                controller_addresses=(BrokerAddress(LISTENER, host_of(self.id), self.port),),
                new_id=self._new_id,
                rng=Random(seed),
                stopwatch_ns=_no_time,
                previous_broker_epoch=_broker_epoch([directory, *others], lost),
            ),
            self.runner.logs,
            metadata,
            self.read_clock(),
        )
        node.watcher = self
        node.sliced.limit(world.sliced_us)
        self.runner.set_node(node)
        self._node, self.core = node, node.quorum.core

    def _open_more_directories(self) -> tuple[list[LogDirectory], list[str]]:
        """The log directories besides the one of the metadata log, and those that are lost."""
        return [], []

    def _format(self) -> None:
        """Format the directory, as an operator does.

        The directories of a dynamic quorum's first voters record these voters.
        """
        world = self.world
        voters = None
        if world.setting.dynamic and not self.wipes and self.id < world.setting.voters:
            voters = [
                QuorumVoter(key.id, host_of(key.id), PORT, directory_id=key.directory_id)
                for key in [voter.key for voter in world.voters.voters]
            ]
        self._format_directory(DIRECTORY, self.key.directory_id, voters)

    def _format_directory(
        self, path: str, directory_id: bytes, voters: list[QuorumVoter] | None = None
    ) -> None:
        formatting = DirectoryFormat(
            cluster_id=CLUSTER_ID,
            node_id=self.id,
            features=first_levels(),
            metadata_directory=DIRECTORY,
            voters=voters,
            listener=LISTENER,
        )
        format_directory(self.files, path, directory_id, formatting, self.read_clock().wall_ms)

    def _new_id(self) -> bytes:
        self._last_id += 1
        prefix = bytes([self.id + 1, self.incarnation % 256, 0, 0])
        return prefix + self._last_id.to_bytes(12, "big")

    def _notify(self, report: Any, now: Now) -> None:
        self.node.handle(report, now)

    def _log_line(self, line: str) -> None:
        self.world.note(self, "says", line)

    def end(self, rng: Rng) -> None:  # noqa: ARG002 - a job's result is fixed
        self.files.kill()
        self.kill()

    def lose_unsynced(self, rng: Rng) -> int:
        before = len(self.disk.batches)
        self.files.power_loss(_Bits(rng))
        return before - self.disk.durable

    def crash(self) -> None:
        """The process, or its machine, ends before some operation on its files."""
        self.world.crashed(self)

    def stopped(self, error: BaseException) -> None:
        """The node cannot continue; the error says why."""
        self.world.note(self, "stops", str(error))
        self.world.stopped(self, error)

    def lose_disk(self, kept: int, election: ElectionState | None = None) -> None:
        super().lose_disk(kept, election)
        self.disk.forget()
        self.applied = 0
        if kept == 0:
            self.files = MemoryFiles()
            self.disk = LogView(self)
            self.disk.cluster_id = CLUSTER_ID
        else:
            disks.restore_old_copy(self.files, self.disk, kept, election)

    # Turns ---------------------------------------------------------------------------------------

    def turn(self, what: str, act: Callable[..., None], *arguments: Any) -> None:
        """One turn of the server's loop, for one event."""
        world, node, now = self.world, self.node, self.read_clock()
        if world.tracing:
            world.note(self, what, "")
        node.now = now
        world.plan_file_faults(self)
        try:
            act(*arguments, now)
            if self.held_connections:
                self._serve_held_requests(now)
            node.poll(now)
            self.peers.expire(now)
            self.runner.finish_turn(now)
            self.peers.flush(now)
        except PowerLost:
            self.crash()
            return
        except (StorageError, OSError) as error:
            self.stopped(error)
            return
        self._report_turn()
        world.turn_ended(self)
        assert self.core is not None
        world.check(self, self.core)  # first: a response may reset a connection: another's turn
        try:
            self._send_responses()  # which may read files
        except PowerLost:
            self.crash()
            return
        self.proposals.drop_if_resigned()
        self._schedule_turn()
        self._arm()

    def _serve_held_requests(self, now: Now) -> None:
        held_connections, self.held_connections = self.held_connections, {}
        for connection in held_connections:
            connection.serve_held(now)

    def _report_turn(self) -> None:
        """Show the world what this turn has written, and the state machine's notifications."""
        notifications, self.notifications = self.notifications, []
        if notifications and notifications[0][0] == "installed":
            self._installed(notifications.pop(0)[1])
        self.disk.refresh_log()
        for what, number in notifications:
            if what == "applied":
                if number > self.applied:  # a start has applied its snapshot already
                    self.world.apply(self, number)
            else:
                self.world.serves(self, number)

    def delays(self, operation: Any) -> None:
        """An operation of the node waits."""

    def before_effects(self, effects: Sequence[Any]) -> None:
        """The node's effects are about to be carried out."""

    def _installed(self, offset: int) -> None:
        core = self.core
        assert core is not None
        epoch = max([end.epoch for end in self.disk.stored_snapshots() if end.offset == offset])
        end = OffsetAndEpoch(offset, epoch)
        snapshot = self.disk.installed(end)
        self.world.saw("snapshot installed")
        self.world.loads(self, snapshot)
        self.load(snapshot)

    def _send_responses(self) -> None:
        while self.ready_connections:
            ready_connections, self.ready_connections = self.ready_connections, {}
            for connection in ready_connections:
                connection.send_finished()

    def _schedule_turn(self) -> None:
        has_work = self.runner.has_work or self.node.has_work
        if self.held_connections and not has_work:
            has_work = not all(connection.mutes for connection in self.held_connections)
        if has_work and not self._is_turn_scheduled:
            self._is_turn_scheduled = True
            delay_ms = self.world.slice_ms if self.node.sliced.has_work else 0
            self.world.schedule(self.world.time + delay_ms, self._scheduled_turn, self.incarnation)

    def _scheduled_turn(self, incarnation: int) -> None:
        if incarnation != self.incarnation:
            return
        if self.paused:
            self.waiting.append((self._scheduled_turn, (incarnation,)))
            return
        self._is_turn_scheduled = False
        self.turn("goes on", _nothing)

    def _deadline(self) -> int | None:
        deadlines = (self.node.deadline(), self.runner.deadline(), self.peers.deadline())
        return min([deadline for deadline in deadlines if deadline is not None], default=None)

    def _poll(self) -> None:
        self.turn("polls", _nothing)

    # Clients -------------------------------------------------------------------------------------

    def send_as_client(
        self, api_key: int, version: int, request: Message, on_response: Callable[[Any], None]
    ) -> ClientEnd:
        """Send a client's request as bytes; `on_response` gets the response, if there is one."""
        api = APIS[api_key]

        def received(data: bytes) -> None:
            start = 8 + api.response_header_version(version)
            on_response(decode(api.response(), version, data, start))

        client = ClientEnd(self, received)
        frame = b"".join(request_frame(api, version, 1, "client", request))
        self.turn("is asked by a client", client.receive, frame)
        return client

    def handle(self, message: Request) -> None:
        """Pass a request to the core, from a client or a foreign sender."""
        api_key, request = request_to_wire(message.body)

        def on_response(response: Any) -> None:
            body = response_from_wire(response, message.body)
            if isinstance(message.pending, int):
                self.world.workload.read_response(message.pending, body)
            else:
                message.pending.response = body

        self.send_as_client(api_key, VERSIONS[api_key], request, on_response)

    def propose(self, pending: Any, value: int) -> int:
        return self.proposals.propose(pending, value)

    def change(self, kind: str, pending: Any, what: Any) -> int:
        return change_voters(self, kind, pending, what)

    @property
    def is_controller(self) -> bool:
        return not self.world.is_broker_only(self)

    def listens_on(self, port: int) -> bool:
        """Whether it accepts peers at a port: a controller does, except at its former ports."""
        return port != BROKER_PORT and port not in self._former_ports and self.is_controller

    def change_port(self) -> None:
        """Listen on another port from the next start on."""
        self._former_ports.add(self.port)
        self.port += 1
        self.world.forget_settings(self)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return (Endpoint(LISTENER, host_of(self.id), self.port),)

    def run_due_work(self) -> None:
        self.turn("is polled", _nothing)
        while self._node is not None and self._node.sliced.has_work:
            self.turn("goes on", _nothing)

    def shut_down(self) -> None:
        self.turn("shuts down", self.node.shut_down)

    def take_snapshot(self) -> None:
        """Take a snapshot now and another soon: a log starts at the one before the newest."""
        self.turn("takes a snapshot", self._take_snapshot)
        self.world.schedule(
            self.world.time + NEXT_SNAPSHOT_MS, self._take_snapshot_again, self.incarnation
        )

    def _take_snapshot(self, now: Now) -> None:
        self.node.due_snapshots.take(now, ALWAYS_DUE)
        if self.node.quorum.is_applying:  # retry until all committed records are applied
            self.world.schedule(self.world.time + 1, self._take_snapshot_again, self.incarnation)

    def _take_snapshot_again(self, incarnation: int) -> None:
        if incarnation == self.incarnation and not self.paused:
            self.turn("takes a snapshot", self._take_snapshot)

    def disconnected(self, *_: Any, **__: Any) -> None:
        raise AssertionError("connections of whole nodes end in their network")

    def carry_out(self, _: Any) -> None:
        raise AssertionError("the runner of a whole node carries out its effects")


def configured_voters(count: int) -> VoterSet:
    """The configured voters, by id and address alone."""
    return VoterSet(
        tuple([Voter(ReplicaKey(i), (Endpoint(LISTENER, host_of(i), PORT),)) for i in range(count)])
    )


class _Bits(Random):
    """A `Random` for files that takes its bits from an `Rng`."""

    def __init__(self, rng: Rng) -> None:
        super().__init__(0)
        self._bits = rng.bits

    def getrandbits(self, k: int, /) -> int:
        return self._bits(k)


def _broker_epoch(directories: Sequence[LogDirectory], lost: Sequence[str]) -> int:
    """The broker epoch that a clean shutdown has stored in all directories, else -1."""
    epochs = {directory.broker_epoch for directory in directories}
    return epochs.pop() if len(epochs) == 1 and not lost else -1


def _nothing(_: Now) -> None:
    """A turn without an event."""


def _no_time() -> int:
    return 0
