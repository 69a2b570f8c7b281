"""Assembles a server: log directory, node, runner, sockets."""

from __future__ import annotations

import gc
import os
import time
from socket import gethostname

from kraftlog.config import endpoints
from kraftlog.config.combinations import BUILTIN_ASSIGNORS
from kraftlog.config.endpoints import bracketed
from kraftlog.config.safety import QUORUM_FETCH_WAIT_MS, refuse_unsafe
from kraftlog.errors import ConfigError, StorageError, message_of
from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter, VoterSet
from kraftlog.node.config import BrokerAddress, NodeConfig
from kraftlog.node.controller.active_controller import first_levels
from kraftlog.node.node import Node
from kraftlog.raft.config import RaftConfig
from kraftlog.runner.quorum_io import open_quorum
from kraftlog.runner.runner import Runner
from kraftlog.server.directories import open_directories
from kraftlog.server.files import OsFiles
from kraftlog.server.ids import new_id
from kraftlog.server.io_thread import OsIOThreads
from kraftlog.server.loop import GC_THRESHOLDS, Server, read_clock
from kraftlog.server.memory import ClientMemory, limit_of
from kraftlog.server.operator_log import log_line
from kraftlog.server.worker_process import OsWorkerProcess
from kraftlog.storage.disk import HandleCache
from kraftlog.storage.format import DirectoryFormat, foreign_names, format_directory, is_formatted
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import BROKER, CONTROLLER

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.config.broker import BrokerConfig
    from kraftlog.config.endpoints import Listener
    from kraftlog.groups.assignors.interface import Assignor
    from kraftlog.node.authentication import TokenKeySource
    from kraftlog.runner.peer_login import PeerLogins
    from kraftlog.server.tls_listeners import TlsListeners

#: Limit of open log files; at most a quarter of the descriptors of the process.
MAX_OPEN_LOG_FILES = 512
#: Longest backoff of a broker that looks for the active controller: client requests wait for it.
MAX_BROKER_BACKOFF_MS = 100
#: Descriptors reserved for everything but connections and cached log files: checkpoints, modules
#: that are imported late, responses that pin more files than the cache has.
OTHER_DESCRIPTORS = 32


def serve(
    settings: BrokerConfig,
    ready: Callable[[str], None],
    *,
    may_format: bool = False,
    bootstrap: bool = False,
    config_file: str = "FILE",
) -> None:
    """Run a node until it is stopped; `ready` gets one line when the node is ready.

    `may_format`: format an empty directory for a single-node cluster. `bootstrap`: format it for
    the quorum in the settings, whose first leader generates the cluster id (Q29, R10). Without
    either, an unformatted directory is an error that shows the format command for `config_file`.
    """
    refuse_unsafe(settings)
    tls = _tls(settings)
    token_keys = _token_keys(settings)
    own_assignors = _own_assignors(settings)
    gc.set_threshold(*GC_THRESHOLDS)
    max_files = _raise_file_limit()
    max_log_files = min(MAX_OPEN_LOG_FILES, max_files // 4)
    files = OsFiles()
    io_threads = OsIOThreads()
    worker = OsWorkerProcess()
    _ensure_formatted(
        files, settings, may_format=may_format, bootstrap=bootstrap, config_file=config_file
    )
    opened = open_directories(files, settings, HandleCache(files, max_log_files), log_line)
    meta, directory = opened.properties, opened.metadata
    server = Server(
        io_threads,
        worker,
        max_frame=settings.socket_request_max_bytes,
        max_connections=max(max_files - _open_descriptors() - max_log_files - OTHER_DESCRIPTORS, 1),
        memory=ClientMemory(limit_of(settings.queued_max_request_bytes)),
    )
    runner = Runner(
        files,
        directory,
        io_threads,
        worker,
        server.peers,
        log_line,
        server.turns.step,
        directories=opened.directories,
        lost=opened.lost,
    )
    server.tls = server.peers.tls = tls
    _listen(server, settings)
    server.peers.logins = _logins(settings)
    server.stop_on_signals()
    metadata = open_quorum(directory, _voters(settings), log_line)
    config = NodeConfig(
        cluster_id=meta.cluster_id,
        directory_id=meta.directory_id,
        settings=settings,
        raft=raft_config(settings, seed=int.from_bytes(new_id()[:8], "big")).replace(
            fresh_cluster_id=None if meta.cluster_id else uuid_text(new_id())
        ),
        addresses=_advertised_addresses(server, settings.advertised_listeners),
        controller_addresses=_advertised_addresses(
            server, settings.advertised_controller_listeners
        ),
        new_id=new_id,
        rng=_Rng(),
        stopwatch_ns=time.perf_counter_ns,
        previous_broker_epoch=opened.broker_epoch,
        own_assignors=own_assignors,
    )
    node = Node(config, runner.logs, metadata, read_clock())
    if node.authentication is not None:
        node.authentication.token_keys = token_keys
    del metadata  # the node does not need the snapshot's records any more
    runner.set_node(node)
    server.set_node(node, runner)
    _serve_http(server, settings)
    server.run(on_ready=lambda: ready(_ready_line(server)))


def _ensure_formatted(
    files: OsFiles,
    settings: BrokerConfig,
    *,
    may_format: bool,
    bootstrap: bool,
    config_file: str,
) -> None:
    """Format the directory with the metadata log if it is unformatted and the caller allows it."""
    path = os.path.abspath(settings.metadata_directory)
    if is_formatted(files, path):
        return
    if may_format:
        names = foreign_names(files, path)
        if names:
            raise StorageError(
                f"{path} has no meta.properties, but {names[0]} and perhaps other files: give a "
                "new or an empty directory with --data"
            )
        _format_standalone(files, path, settings)
    elif bootstrap:
        _format_for_quorum(files, path, settings)
    else:
        raise StorageError(f"{path} is not formatted. {_how_to_format(settings, config_file)}")


def _how_to_format(settings: BrokerConfig, config_file: str) -> str:
    """The format command; without static voters a controller needs one of two further flags."""
    command = f"kraftlog format --cluster-id ID --config {config_file}"
    if settings.is_controller and not settings.voters:
        return (
            "If this node joins a quorum, or another node begins it, run "
            f"{command} --no-initial-controllers, with the id of that cluster (kraftlog quorum "
            "describe --status shows it). If a new quorum begins with this node alone, run "
            f"{command} --standalone, with an id of kraftlog storage random-uuid"
        )
    alternative = (
        "; or start every node of a new cluster with --bootstrap" if settings.voters else ""
    )
    return f"Run {command}, with the same id on every node of the cluster{alternative}"


def _format_standalone(files: OsFiles, path: str, settings: BrokerConfig) -> None:
    """Format for a new quorum with this node as its only voter; others may be added later."""
    directory_id = new_id()
    listener = settings.controller_listeners[0]
    own_voter = endpoints.QuorumVoter(
        settings.node_id, listener.host, listener.port, directory_id=directory_id
    )
    formatting = DirectoryFormat(
        cluster_id=uuid_text(new_id()),
        node_id=settings.node_id,
        features=first_levels(),
        metadata_directory=path,
        voters=[own_voter],
        listener=listener.name,
    )
    format_directory(files, path, directory_id, formatting, read_clock().wall_ms)


def _format_for_quorum(files: OsFiles, path: str, settings: BrokerConfig) -> None:
    """Format for a quorum whose cluster id is not known yet."""
    formatting = DirectoryFormat(
        cluster_id=None,
        node_id=settings.node_id,
        features=first_levels(),
        metadata_directory=path,
        voters=None,
        listener=settings.controller_listener_names[0],
    )
    format_directory(files, path, new_id(), formatting, read_clock().wall_ms)


def _tls(settings: BrokerConfig) -> TlsListeners | None:
    """The certificates of listeners with TLS; without one no module of TLS is imported."""
    if not settings.uses_tls:
        return None
    from kraftlog.server.tls_listeners import TlsListeners

    return TlsListeners(settings, read_clock())


def _listen(server: Server, settings: BrokerConfig) -> None:
    """Bind all listeners; client listeners open later, when the node is ready."""
    for listener in settings.listeners:
        is_controller_listener = listener in settings.controller_listeners
        serves = CONTROLLER if is_controller_listener else BROKER
        try:
            server.ports[listener.name] = server.listen(
                listener.name, listener.host, listener.port, serves
            )
        except OSError as error:
            where = f"{listener.name}://{listener.host}:{listener.port}"
            raise ConfigError(f"listeners: {where}: {message_of(error)}") from error


def _logins(settings: BrokerConfig) -> PeerLogins | None:
    """How this node logs in at others; None if no listener wants it."""
    if not settings.uses_sasl:
        return None
    from kraftlog.config.sasl import login_at_controllers, login_between_brokers
    from kraftlog.runner.peer_login import PeerLogins

    return PeerLogins(
        login_between_brokers(settings) if settings.is_broker else None,
        login_at_controllers(settings),
        lambda: f"{_Rng().getrandbits(192):048x}",
    )


def _token_keys(settings: BrokerConfig) -> dict[str, TokenKeySource]:
    """The keys of tokens by listener; without SASL nothing of it is imported."""
    if not settings.uses_sasl:
        return {}
    from kraftlog.server.token_keys import token_key_sources

    return token_key_sources(settings)


def _own_assignors(settings: BrokerConfig) -> dict[str, Assignor] | None:
    """The assignors of other packages by name; without any, no package is looked at."""
    names = settings.group_consumer_assignors
    if set(names).issubset(BUILTIN_ASSIGNORS):
        return None
    from kraftlog.server.group_assignors import find_assignors

    return find_assignors(names)


def _advertised_addresses(server: Server, listeners: list[Listener]) -> tuple[BrokerAddress, ...]:
    """The advertised endpoints, once the listeners are bound to their ports."""
    return tuple(
        [
            BrokerAddress(
                name=listener.name,
                host=listener.host or gethostname(),
                port=listener.port or server.ports[listener.name],
                security_protocol=endpoints.SECURITY_PROTOCOLS.index(listener.protocol),
            )
            for listener in listeners
        ]
    )


def _serve_http(server: Server, settings: BrokerConfig) -> None:
    """Start metrics and health before the node is ready, so that they show why it is not."""
    port = settings.kraftlog_http_port
    if port < 0:
        return
    from kraftlog.server.http import HttpServer
    from kraftlog.server.pages import Pages

    host = settings.listeners[0].host
    try:
        server.http = HttpServer(server.epoll, host, port, Pages(server).page)
    except OSError as error:
        raise ConfigError(f"kraftlog.http.port={port}: {message_of(error)}") from error
    log_line(f"kraftlog: http on {bracketed(host or '::')}:{server.http.port}")


def _voters(settings: BrokerConfig) -> VoterSet:
    """Voters of the configuration; those in the log and its snapshots take precedence."""
    name = settings.controller_listener_names[0]
    static = [
        Voter(
            ReplicaKey(voter.id),
            (Endpoint(name, voter.host, voter.port),) if voter.host else (),
        )
        for voter in settings.voters
    ]
    return VoterSet(tuple(sorted(static, key=lambda voter: voter.key.id)))


def _ready_line(server: Server) -> str:
    addresses = server.addresses()
    client_addresses = [address for address in addresses if address[2] == BROKER]
    host, port, _ = (client_addresses or addresses)[0]
    return f"kraftlog ready on {bracketed(host)}:{port}"


def raft_config(settings: BrokerConfig, seed: int) -> RaftConfig:
    max_backoff_ms = settings.kraftlog_quorum_retry_backoff_max_ms
    if not settings.is_controller:
        max_backoff_ms = min(max_backoff_ms, MAX_BROKER_BACKOFF_MS)
    return RaftConfig(
        election_timeout_ms=settings.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=settings.controller_quorum_fetch_timeout_ms,
        fetch_max_wait_ms=QUORUM_FETCH_WAIT_MS,
        election_backoff_max_ms=settings.controller_quorum_election_backoff_max_ms,
        max_failed_elections=settings.kraftlog_quorum_max_failed_elections,
        retry_backoff_ms=settings.controller_quorum_retry_backoff_ms,
        retry_backoff_max_ms=max(max_backoff_ms, settings.controller_quorum_retry_backoff_ms),
        max_fetch_bytes=settings.controller_quorum_fetch_max_bytes,
        max_snapshot_bytes=settings.controller_quorum_fetch_snapshot_max_bytes,
        awaits_commits=settings.is_broker,
        # Ids that no node can have, because bootstrap addresses have no node id yet.
        bootstrap_ids=(
            () if settings.voters else tuple(range(-2, -2 - len(settings.bootstrap_servers), -1))
        ),
        seed=seed,
    )


class _Rng:
    """Random numbers from the operating system."""

    def getrandbits(self, bits: int) -> int:
        size = (bits + 7) // 8
        return int.from_bytes(os.urandom(size), "big") >> (8 * size - bits)  # noqa: TID251 - this is the host


def _open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _raise_file_limit() -> int:
    """Raise the limit of open files to the hard limit and return it."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else 1 << 20
