"""Puts a server together: directory, node, runner, sockets."""

from __future__ import annotations

import os

from kraftlog.logstate.voters import ReplicaKey, Voter, VoterSet
from kraftlog.node.config import NodeConfig
from kraftlog.node.node import Node
from kraftlog.raft.config import RaftConfig
from kraftlog.runner.quorum import open_quorum
from kraftlog.runner.runner import Runner
from kraftlog.server.files import OsFiles
from kraftlog.server.lane import Lane
from kraftlog.server.loop import Server, read_clock, say
from kraftlog.storage.directory import LogDirectory
from kraftlog.storage.disk import HandleCache
from kraftlog.storage.meta import MetaProperties, load_or_make
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.apis import BROKER, CONTROLLER

if TYPE_CHECKING:
    from collections.abc import Callable

#: Kafka's default for socket.request.max.bytes.
MAX_FRAME = 104_857_600
#: Open files of logs are at most so many, and a quarter of what the process may have open.
MAX_OPEN_LOG_FILES = 512
#: Descriptors kept for what is neither a connection nor a file of a log: checkpoints, modules that
#: are imported late, answers that hold more files than the cache would.
OTHER_DESCRIPTORS = 32


class Settings(Value):
    """`voters`: the controllers by id, where no record says who they are."""

    data: str
    host: str
    port: int
    node_id: int
    voters: tuple[Voter, ...] = ()
    is_broker: bool = True
    is_controller: bool = True
    raft: RaftConfig | None = None


def serve(settings: Settings, ready: Callable[[str], None]) -> None:
    """Run a node until it is told to stop; `ready` gets one line when clients may come."""
    may_open = _raise_file_limit()
    log_files = min(MAX_OPEN_LOG_FILES, may_open // 4)
    files = OsFiles()
    lane = Lane("flush")
    meta = load_or_make(
        files,
        settings.data,
        MetaProperties(
            cluster_id=uuid_text(os.urandom(16)),  # noqa: TID251 - this is the host
            node_id=settings.node_id,
            directory_id=os.urandom(16),  # noqa: TID251 - this is the host
        ),
    )
    directory = LogDirectory(files, settings.data, HandleCache(files, log_files))
    server = Server(
        lane,
        max_frame=MAX_FRAME,
        max_connections=max(may_open - _open_already() - log_files - OTHER_DESCRIPTORS, 1),
    )
    runner = Runner(files, directory, lane, server.peers, say)
    serves = (BROKER if settings.is_broker else 0) | (CONTROLLER if settings.is_controller else 0)
    port = server.listen(settings.host, settings.port, serves)
    server.stop_on_signals()
    me = ReplicaKey(settings.node_id, meta.directory_id)
    metadata = open_quorum(directory, VoterSet(settings.voters or (Voter(me),)), say)
    config = NodeConfig(
        node_id=settings.node_id,
        cluster_id=meta.cluster_id,
        directory_id=meta.directory_id,
        raft=(settings.raft or RaftConfig()).replace(
            seed=int.from_bytes(os.urandom(8), "big")  # noqa: TID251 - this is the host
        ),
        is_broker=settings.is_broker,
        is_controller=settings.is_controller,
    )
    node = Node(config, runner.logs, metadata, read_clock())
    runner.carry(node)
    server.carry(node, runner)
    server.run(on_ready=lambda: ready(f"kraftlog ready on {settings.host}:{port}"))


def _open_already() -> int:
    return len(os.listdir("/proc/self/fd"))


def _raise_file_limit() -> int:
    """As many open files as the system lets this process have; how many that is."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else 1 << 20
