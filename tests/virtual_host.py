"""A virtual host: runs the same node as the server, on files in memory and a manual clock.

It has no sockets, threads or waiting: bytes go in, and responses come out.
"""

from __future__ import annotations

from collections import deque
from random import Random

from kraftlog.config.read_config import read_config
from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter, VoterSet
from kraftlog.node.channels import PROBE_CHANNEL
from kraftlog.node.config import BrokerAddress, NodeConfig
from kraftlog.node.node import Node
from kraftlog.node.pending_response import PendingResponse
from kraftlog.raft.config import RaftConfig
from kraftlog.replication.replica_fetchers import CHANNEL_PREFIX
from kraftlog.runner.quorum_io import open_quorum
from kraftlog.runner.runner import Runner
from kraftlog.storage.cleaning import clean
from kraftlog.storage.directory import LogDirectory
from kraftlog.types import Now
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import BROKER
from kraftlog_simulator.files import MemoryFiles
from kraftlog_simulator.virtual_connection import VirtualConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from kraftlog.config.broker import BrokerConfig
    from kraftlog.ports.peers import Peers


class InlineIOThread:
    """Runs every job at the end of the turn."""

    def __init__(self) -> None:
        self._jobs: deque[
            tuple[Callable[[], Any], Callable[[Any, BaseException | None, Now], None]]
        ] = deque()
        #: A thread that hangs runs no jobs.
        self.hangs = False

    def submit(
        self, job: Callable[[], Any], done: Callable[[Any, BaseException | None, Now], None]
    ) -> None:
        self._jobs.append((job, done))

    def deliver(self, now: Now) -> bool:
        """Run the submitted jobs; return whether there were any."""
        if self.hangs:
            return False
        had_jobs = bool(self._jobs)
        while self._jobs:
            job, done = self._jobs.popleft()
            result, failure = None, None
            try:
                result = job()
            except OSError as error:  # a thread would report it to the loop
                failure = error
            done(result, failure, now)
        return had_jobs


class InlineIOThreads:
    """The I/O threads of a virtual host; the quorum's jobs run last, as its thread may be slow."""

    def __init__(self) -> None:
        self.quorum = InlineIOThread()
        self.data = InlineIOThread()
        self.maintenance = InlineIOThread()

    def deliver(self, now: Now) -> bool:
        """Run the submitted jobs; return whether there were any."""
        threads = (self.maintenance, self.data, self.quorum)
        had_jobs = [thread.deliver(now) for thread in threads]
        return any(had_jobs)


class InlineWorkerProcess:
    """Compacts in the I/O thread, on the same files."""

    def __init__(self, files: MemoryFiles, io_thread: InlineIOThread) -> None:
        self._files = files
        self._io_thread = io_thread

    def compact(
        self, task: dict[str, Any], done: Callable[[Any, BaseException | None, Now], None]
    ) -> None:
        self._io_thread.submit(lambda: clean(self._files, task), done)


SETTINGS = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:9093
kraftlog.reserve.bytes=0
"""
CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"
#: More turns than this without time passing: the node is in an endless loop.
MAX_TURNS = 10_000


def host_of(node_id: int) -> str:
    return f"127.0.0.{node_id}"


def directory_id_of(node_id: int, path: str = "data") -> bytes:
    """The id of a log directory of a node."""
    last = b"" if path == "data" else path[-1:].encode()
    return bytes([node_id]) * (16 - len(last)) + last


def voters_named(*node_ids: int) -> VoterSet:
    """The voters of a quorum that is dynamic from the start, at kraft.version 1."""
    return VoterSet(
        tuple(
            [
                Voter(
                    ReplicaKey(i, directory_id_of(i)), (Endpoint("CONTROLLER", host_of(i), 9093),)
                )
                for i in node_ids
            ]
        )
    )


class NoPeers:
    """A network for a cluster of one node: other brokers in its image never respond."""

    def send(self, effect: Any) -> None:
        if effect.channel != PROBE_CHANNEL and not effect.channel.startswith(CHANNEL_PREFIX):
            raise AssertionError(f"a cluster of one node has no peers: {effect}")


def _controller_addresses(settings: BrokerConfig) -> tuple[BrokerAddress, ...]:
    own = host_of(settings.node_id)
    listeners = settings.advertised_controller_listeners
    return tuple(
        [
            BrokerAddress(listener.name, listener.host or own, listener.port)
            for listener in listeners
        ]
    )


class VirtualHost:
    """A host with one node, by default a cluster of its own; the caller sets `now`."""

    def __init__(
        self,
        files: MemoryFiles | None = None,
        settings: str = SETTINGS,
        *,
        settled: bool = True,
        peers: Peers | None = None,
        cluster_id: str | None = CLUSTER_ID,
        fresh_cluster_id: str | None = None,
        voters: VoterSet | None = None,
        io_threads: Any = None,
        directories: Sequence[str] = ("data",),
        lost: Sequence[str] = (),
    ) -> None:
        """Start a node; `settled`: run turns until it is idle and ready.

        `voters` are the configured ones, by default this node alone. The first of the `directories`
        has the metadata log; `lost` are log directories that cannot be used. A cluster without an
        id gets `fresh_cluster_id` from its first leader.
        """
        self.files = files or MemoryFiles()
        self.files.starts += 1
        self.now = Now(0, 0)
        self.log_lines: list[str] = []
        #: The node's stopwatch, which the caller advances.
        self.stopwatch_ns = 0
        self.io_threads = io_threads or InlineIOThreads()
        #: Connections with frames that wait for an earlier request.
        self._held: list[VirtualConnection] = []
        node_settings = read_config(settings, {})[0]
        node_id = node_settings.node_id
        opened = [self._open_directory(path, node_id) for path in directories]
        directory = opened[0]
        # the ids differ from those of an earlier process
        self._last_id = (node_id << 56) + (self.files.starts << 32)
        directory.keep_reserve(node_settings.kraftlog_reserve_bytes)
        self.runner = Runner(
            self.files,
            directory,
            self.io_threads,
            InlineWorkerProcess(self.files, self.io_threads.maintenance),
            peers or NoPeers(),
            self.log_lines.append,
            directories=opened,
            lost=lost,
        )
        if voters is None:
            voters = voters_named(node_id)
        metadata = open_quorum(directory, voters, self.log_lines.append)
        config = NodeConfig(
            cluster_id=cluster_id,
            directory_id=directory_id_of(node_id),
            settings=node_settings,
            raft=RaftConfig(
                fresh_cluster_id=fresh_cluster_id,
                bootstrap_ids=tuple(range(-2, -2 - len(node_settings.bootstrap_servers), -1)),
                seed=node_id - 1,
            ),
            addresses=(BrokerAddress("PLAINTEXT", host_of(node_id), 9092),),
            controller_addresses=_controller_addresses(node_settings),
            new_id=self._new_id,
            rng=Random(node_id),
            stopwatch_ns=lambda: self.stopwatch_ns,
            previous_broker_epoch=directory.broker_epoch,
        )
        self.node = Node(config, self.runner.logs, metadata, self.now)
        self.runner.set_node(self.node)
        if settled:
            self.settle()
            assert self.node.is_ready, "a cluster of one is ready at once"

    def _open_directory(self, path: str, node_id: int) -> LogDirectory:
        if not self.files.exists(path):
            self.files.make_folder(path)
        return LogDirectory(self.files, path, directory_id=directory_id_of(node_id, path))

    def _new_id(self) -> bytes:
        self._last_id += 1
        return self._last_id.to_bytes(8, "big") + bytes([0x80, *bytes(7)])

    def settle(self) -> None:
        """Run turns until there is no work before the next deadline."""
        for _ in range(MAX_TURNS):
            self.turn()
            due = self.node.deadline()
            idle = due is None or due > self.now.monotonic_ms
            can_send = any(not connection.mutes for connection in self._held)
            if idle and not (self.runner.has_work or self.node.has_work or can_send):
                return
        raise AssertionError("the node never becomes idle")

    def connect(self, serves: int = BROKER, name: str = "PLAINTEXT") -> VirtualConnection:
        return VirtualConnection(serves, name)

    def send(self, connection: VirtualConnection, frame: bytes) -> None:
        """Send one request as a client does, with its length in front."""
        if connection.mutes:
            connection.held.append(frame)
            if connection not in self._held:
                self._held.append(connection)
            return
        buffer = bytearray(frame)
        templates = connection.request_templates
        if templates is not None and templates.serve(
            buffer, memoryview(buffer), 4, len(buffer), self.now
        ):
            return
        pending = PendingResponse(connection)
        pending.size = len(buffer) - 4
        connection.responses.append(pending)
        self.node.frame(pending, buffer, 4, len(buffer), self.now)

    def turn(self) -> None:
        """Run turns until the I/O threads have no results."""
        self.one_turn()
        while self.io_threads.deliver(self.now):
            self.one_turn()

    def one_turn(self) -> None:
        """One turn, as in the server's loop."""
        for connection in self._held[:]:
            while connection.held and not connection.mutes:
                self.send(connection, connection.held.popleft())
        self._held = [connection for connection in self._held if connection.held]
        self.node.poll(self.now)
        self.runner.finish_turn(self.now)

    def deliver(self) -> None:
        """Run the submitted jobs and deliver their results, without a turn."""
        self.io_threads.deliver(self.now)

    def ask(self, connection: VirtualConnection, frame: bytes) -> bytes:
        self.send(connection, frame)
        self.turn()
        return connection.take()

    def pass_time(self, ms: int) -> None:
        self.now = Now(self.now.monotonic_ms + ms, self.now.wall_ms + ms)
        self.turn()
