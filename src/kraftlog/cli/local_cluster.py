"""`kraftlog start --nodes N`: the nodes of a local cluster, their files and their directories.

In the data directory, node n has the directory `node-n` and the file `node-n.properties`, with
which it can also be started alone. The file of node 1 is written last: if it does not exist, no
node has run yet.
"""

from __future__ import annotations

import os

from kraftlog.cli.common import UsageError, usage_errors
from kraftlog.config.endpoints import MAX_PORT, bracketed
from kraftlog.config.properties import parse, parse_overrides
from kraftlog.errors import ConfigError, StorageError
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    import argparse
    import socket
    from collections.abc import Sequence

    from kraftlog.cli.secured_folder import SecuredFolder
    from kraftlog.config import endpoints

DEFAULT_PORT = 9092
#: The listener of a new controller has the port of its broker plus this. Later, --port and --host
#: move only brokers: if all controllers moved at once, they would not find each other.
CONTROLLER_PORT_OFFSET = 1000
#: The range in which --port 0 looks for consecutive free ports: below the system's ephemeral ports.
FREE_FROM, FREE_TO = 12_000, 30_000
FREE_ATTEMPTS = 100
#: The default replication factor, if there are that many nodes.
REPLICAS = 3
#: The election timeout of node 1, short so that it campaigns while the others still wait. Otherwise
#: a start would take one to two seconds longer. Pre-vote keeps it from disturbing a leader.
NODE_1_ELECTION_TIMEOUT_MS = 100
#: Properties that --nodes determines for each node: --override must not set them.
PER_NODE_KEYS = (
    "advertised.listeners",
    "broker.id",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "kraftlog.http.port",
    "listeners",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "node.id",
    "process.roles",
)
HEADER = "# kraftlog start --nodes writes this file at every start; --override sets a property.\n"


class LocalNode(Value):
    """A node of the cluster; `controller` is empty if it is only a broker."""

    id: int
    #: The address for clients, and the address of its controller: host:port.
    listener: str
    controller: str
    #: Its data directory and its properties file.
    directory: str
    file: str

    @property
    def roles(self) -> str:
        return "broker,controller" if self.controller else "broker"


class ClusterPlan(Value):
    """The nodes and the contents of their properties files."""

    nodes: Sequence[LocalNode]
    texts: Sequence[str]
    #: The number of nodes that existed before; the others are new.
    existing_count: int
    #: Sockets that reserve free ports until the nodes listen on them.
    port_reservations: Sequence[socket.socket] = ()
    #: Certificates and users; None: no TLS and no login.
    security: SecuredFolder | None = None


def plan(options: argparse.Namespace, security: SecuredFolder | None = None) -> ClusterPlan:
    """The nodes that follow from the options and the data directory; writes nothing."""
    _check_options(options)
    data = options.data or (security.data if security else "data")
    node_count = options.nodes or 1
    with usage_errors():
        overrides = parse_overrides(options.override)
    for key in PER_NODE_KEYS:
        if key in overrides:
            raise UsageError(f"--override {key}: --nodes sets this for each node")
    existing = _existing_nodes(data, node_count)
    port_reservations: list[socket.socket] = []
    host, first_port = _first_listener(options, existing, node_count, port_reservations)
    moves_listeners = options.host is not None or bool(options.port)
    nodes = []
    for node_id in range(1, node_count + 1):
        node = _new_node(
            node_id,
            data,
            bracketed(host),
            first_port,
            is_new_cluster=not existing,
            node_count=node_count,
        )
        if node_id <= len(existing):
            old_node = existing[node_id - 1]
            node = old_node.replace(listener=node.listener) if moves_listeners else old_node
        nodes.append(node)
    servers = ",".join([node.controller for node in nodes if node.controller])
    if security is not None and security.is_new and existing:
        raise StorageError(
            f"{data} holds a cluster, but {security.file('broker.properties')}, with which its "
            "brokers log in, is missing"
        )
    settings = {**_replication(node_count), **overrides}
    if security is not None:
        settings = {**security.settings(), **settings}
    texts = [
        _text(node, servers, {**_node_settings(node, node_count, options), **settings})
        for node in nodes
    ]
    return ClusterPlan(nodes, texts, len(existing), port_reservations, security)


def _new_node(
    node_id: int, data: str, host: str, first_port: int, *, is_new_cluster: bool, node_count: int
) -> LocalNode:
    """A new node; nodes that join an existing cluster are only brokers."""
    port = first_port + node_id - 1
    is_controller = is_new_cluster and node_id <= controllers_of(node_count)
    return LocalNode(
        id=node_id,
        listener=f"{host}:{port}",
        controller=f"{host}:{port + CONTROLLER_PORT_OFFSET}" if is_controller else "",
        directory=f"{data}/node-{node_id}",
        file=file_of(data, node_id),
    )


def _check_options(options: argparse.Namespace) -> None:
    for name, value in (
        ("a properties file", options.file),
        ("--node-id", options.node_id),
        ("--bootstrap", options.bootstrap or None),
    ):
        if value is not None:
            flag = "--secure" if options.nodes is None else "--nodes"
            raise UsageError(f"{flag} cannot be combined with {name}")


def file_of(data: str, node_id: int) -> str:
    return f"{data}/node-{node_id}.properties"


def _existing_nodes(data: str, node_count: int) -> list[LocalNode]:
    """The nodes of the cluster in the data directory, or none if no node is formatted."""
    if os.path.exists(f"{data}/meta.properties"):
        raise StorageError(
            f"{data} is the directory of a single node; give the cluster another with --data"
        )
    existing: list[LocalNode] = []
    while os.path.exists(path := file_of(data, len(existing) + 1)):
        existing.append(_read_node(path, len(existing) + 1, f"{data}/node-{len(existing) + 1}"))
    if not any(_is_formatted(node.directory) for node in existing):
        return []
    if len(existing) > node_count:
        raise ConfigError(
            f"--nodes {node_count}: {data} holds a cluster of {len(existing)} nodes; start them "
            f"all with --nodes {len(existing)}, or another cluster with --data"
        )
    return existing


def _read_node(path: str, node_id: int, directory: str) -> LocalNode:
    with open(path, encoding="utf-8") as file:
        pairs = parse(file.read())
    try:
        listeners = [listener.partition("://")[2] for listener in pairs["listeners"].split(",")]
        int(listeners[0].rpartition(":")[2])
        return LocalNode(node_id, listeners[0], "".join(listeners[1:]), directory, path)
    except (KeyError, ValueError) as error:
        raise StorageError(f"{path}: the listeners cannot be read: {error}") from None


def _is_formatted(directory: str) -> bool:
    return os.path.exists(f"{directory}/meta.properties")


def _first_listener(
    options: argparse.Namespace,
    existing: Sequence[LocalNode],
    node_count: int,
    port_reservations: list[socket.socket],
) -> tuple[str, int]:
    """Host and port of node 1, from which the ports of the others follow; by default unchanged.

    For --port 0, `port_reservations` gets a socket for each free port.
    """
    host, port = "127.0.0.1", DEFAULT_PORT
    if existing:
        old_host, _, old_port = existing[0].listener.rpartition(":")
        host, port = old_host.strip("[]"), int(old_port)
    host = host if options.host is None else options.host
    if options.port == 0 and not existing:
        return host, _reserve_ports(host, node_count, port_reservations)
    if options.port:
        port = options.port
    max_port = MAX_PORT - node_count + 1 - CONTROLLER_PORT_OFFSET
    if not 0 < port <= max_port:
        raise UsageError(
            f"--port {port}: expected 0, or 1 to {max_port}, because the controllers listen "
            f"{CONTROLLER_PORT_OFFSET} ports above"
        )
    return host, port


def _reserve_ports(host: str, count: int, port_reservations: list[socket.socket]) -> int:
    """The first of `count` consecutive free ports; reserves them and those of the controllers."""
    from kraftlog.server.ids import new_id
    from kraftlog.server.listening import bind

    for _ in range(FREE_ATTEMPTS):
        first = FREE_FROM + int.from_bytes(new_id()[:4], "big") % (FREE_TO - FREE_FROM)
        try:
            for number in range(count):
                port_reservations.append(bind(host, first + number))
                port_reservations.append(bind(host, first + number + CONTROLLER_PORT_OFFSET))
        except OSError:
            while port_reservations:
                port_reservations.pop().close()
        else:
            return first
    raise ConfigError(f"--port 0: no {count} free ports in a row were found")


def controllers_of(node_count: int) -> int:
    """The number of controllers: odd, as one more would not tolerate more failures."""
    return min(node_count - 1 + node_count % 2, 5)


def _replication(node_count: int) -> dict[str, str]:
    """Replication defaults; with three nodes, topics stay writable while one is down."""
    replicas = min(node_count, REPLICAS)
    min_isr = max(replicas - 1, 1)
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(min_isr),
        "offsets.topic.replication.factor": str(replicas),
    }


def _node_settings(node: LocalNode, node_count: int, options: argparse.Namespace) -> dict[str, str]:
    """Settings of one node; the HTTP ports are consecutive, too, unless --http-port is 0."""
    settings = {}
    if node.id == 1 and node_count > 2:
        settings["controller.quorum.election.timeout.ms"] = str(NODE_1_ELECTION_TIMEOUT_MS)
    if options.http_port is not None:
        port = options.http_port + node.id - 1 if options.http_port > 0 else options.http_port
        settings["kraftlog.http.port"] = str(port)
    return settings


def _text(node: LocalNode, servers: str, settings: dict[str, str]) -> str:
    name = settings.get("inter.broker.listener.name", "PLAINTEXT")
    listeners = [f"{name}://{node.listener}"]
    if node.controller:
        listeners.append(f"CONTROLLER://{node.controller}")
    pairs = {
        "process.roles": node.roles,
        "node.id": str(node.id),
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": servers,
        "log.dirs": os.path.abspath(node.directory),
        **settings,
    }
    return HEADER + "".join([f"{key}={_escaped(value)}\n" for key, value in pairs.items()])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def table(nodes: Sequence[LocalNode], pids: Sequence[int]) -> str:
    """A table of the nodes, and the line with the addresses for clients."""
    rows = [("node", "roles", "listener", "controller", "directory", "pid")]
    for node, pid in zip(nodes, pids, strict=True):
        rows.append(
            (
                str(node.id),
                node.roles,
                node.listener,
                node.controller or "-",
                node.directory,
                str(pid),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([cell.ljust(width) for cell, width in zip(row, widths, strict=True)]).rstrip()
        for row in rows
    ]
    servers = ",".join([node.listener for node in nodes])
    return "\n".join([*lines, f"kraftlog ready on {servers}"])


# On disk ------------------------------------------------------------------------------------------


def prepare(plan: ClusterPlan) -> list[str]:
    """Format new directories and write the files; return log lines for the operator."""
    notes = []
    if plan.security is not None:
        # Before the settings are checked: the files that they name have to exist.
        notes = plan.security.write(_hosts(plan.nodes))
    _check_settings(plan)
    _refuse_running(plan.nodes)
    empty = [
        node for node in plan.nodes if not plan.existing_count or not _is_formatted(node.directory)
    ]
    notes += _format(plan, empty) if empty else []
    for node, text in reversed([*zip(plan.nodes, plan.texts, strict=True)]):
        _write(node.file, text)
    return notes


def _hosts(nodes: Sequence[LocalNode]) -> set[str]:
    """The names under which the nodes are reached."""
    import socket

    hosts = {"localhost", "127.0.0.1", "::1", socket.gethostname()}
    return hosts | {node.listener.rpartition(":")[0].strip("[]") for node in nodes}


def _check_settings(plan: ClusterPlan) -> None:
    """Refuse settings with which nodes would not start, before anything is written."""
    from kraftlog.config.read_config import read_config
    from kraftlog.config.safety import refuse_unsafe

    for text in plan.texts:
        config, _ = read_config(text, {})
        refuse_unsafe(config)


def _refuse_running(nodes: Sequence[LocalNode]) -> None:
    """Refuse directories that running nodes use: their files are not to change under them.

    Nodes that another start has spawned and that have not locked their directories yet are missed.
    """
    from kraftlog.server.files import OsFiles
    from kraftlog.storage.directory import LOCK

    files = OsFiles()
    for node in nodes:
        if not _is_formatted(node.directory):
            continue
        try:
            files.close(files.lock(f"{node.directory}/{LOCK}"))
        except BlockingIOError:
            raise StorageError(
                f"node {node.id} is running in {node.directory}: stop its cluster first, or start "
                "another one with --data"
            ) from None


def _format(plan: ClusterPlan, empty: Sequence[LocalNode]) -> list[str]:
    """Format the directories of a new cluster, or of nodes that join one."""
    from kraftlog.config.endpoints import QuorumVoter
    from kraftlog.node.controller.active_controller import first_levels
    from kraftlog.server.files import OsFiles
    from kraftlog.server.ids import new_id
    from kraftlog.server.loop import read_clock
    from kraftlog.storage.format import DirectoryFormat, format_directory
    from kraftlog.storage.meta_properties import load
    from kraftlog.types import uuid_text

    files = OsFiles()
    voters: list[endpoints.QuorumVoter] | None = None
    ids = {node.id: new_id() for node in empty}
    is_new = not plan.existing_count
    if plan.existing_count:
        formatted = next(node for node in plan.nodes if _is_formatted(node.directory))
        cluster_id = load(files, formatted.directory).cluster_id
    else:
        _refuse_data(plan.nodes)
        cluster_id = uuid_text(new_id())
        voters = [
            QuorumVoter(node.id, *_server(node.controller), ids[node.id])
            for node in plan.nodes
            if node.controller
        ]
    for node in empty:
        formatting = DirectoryFormat(
            cluster_id=cluster_id,
            node_id=node.id,
            features=first_levels(),
            metadata_directory=os.path.abspath(node.directory),
            voters=voters if node.controller else None,
            listener="CONTROLLER",
            scram=plan.security.credentials() if is_new and plan.security else (),
        )
        directory = formatting.metadata_directory
        format_directory(files, directory, ids[node.id], formatting, read_clock().wall_ms)
    return [
        f"node {node.id}: {node.directory} was empty and has been formatted; the node copies its "
        "data again from the others"
        for node in empty
        if node.id <= plan.existing_count
    ]


def _server(address: str) -> tuple[str, int]:
    from kraftlog.config.endpoints import parse_server

    server = parse_server(address)
    if server is None:
        raise ConfigError(f"--host: other nodes cannot connect to {address}")
    return server


def _refuse_data(nodes: Sequence[LocalNode]) -> None:
    """Refuse directories with a metadata log: a new cluster must not take over old data."""
    for node in nodes:
        folder = f"{node.directory}/__cluster_metadata-0"
        if os.path.isdir(folder) and any(name.endswith(".log") for name in os.listdir(folder)):
            raise StorageError(
                f"{node.directory} holds the data of a node, but there is no {nodes[0].file}"
            )


def _write(path: str, text: str) -> None:
    """Replace the file, unless it has this text already."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except FileNotFoundError:
        pass
    from kraftlog.server.files import OsFiles
    from kraftlog.storage.disk import write_atomically

    write_atomically(OsFiles(), path, text.encode())
