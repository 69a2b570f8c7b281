"""`kraftlog start --nodes N`: the nodes of a local cluster, their files and their directories.

Node n has the directory `node-n` and the file `node-n.properties` in the data directory, which
starts it alone, too. The file of node 1 is written last: without it no node has run yet.
"""

from __future__ import annotations

import os

from kraftlog.config.endpoints import bracketed
from kraftlog.config.properties import parse, parse_overrides
from kraftlog.errors import ConfigError, StorageError
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    import argparse
    import socket
    from collections.abc import Sequence

    from kraftlog.config import endpoints

DEFAULT_PORT = 9092
#: A controller listens on the port of its broker plus this, and keeps its address: if all moved
#: at once they would not find each other.
CONTROLLER_PORTS = 1000
MOST_NODES = 100
LAST_PORT = 65_535
#: Where rows of free ports are looked for: below those that the system gives to clients.
FREE_FROM, FREE_TO = 12_000, 30_000
FREE_ATTEMPTS = 100
#: The default replication factor, where there are as many nodes.
REPLICAS = 3
#: Election timeout of node 1, so that it campaigns while the others wait: else a start would take
#: one to two seconds longer. Pre-votes keep it from disturbing a leader.
FIRST_ELECTION_MS = 100
#: Keys that differ from node to node.
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
    """A node of the cluster; a broker only has no `controller`."""

    id: int
    #: Where clients connect, and where other nodes reach its controller: host:port.
    listener: str
    controller: str
    #: Its data directory, and its properties file.
    directory: str
    file: str

    @property
    def roles(self) -> str:
        return "broker,controller" if self.controller else "broker"


class Plan(Value):
    """The nodes, and the text of the file of each."""

    nodes: Sequence[LocalNode]
    texts: Sequence[str]
    #: How many of the nodes existed before; the others are new.
    known: int
    #: Sockets that hold free ports until the nodes listen on them.
    held: Sequence[socket.socket] = ()


def plan(options: argparse.Namespace) -> Plan:
    """The nodes that the options and the data directory ask for; changes nothing."""
    _check_options(options)
    data = options.data or "data"
    overrides = parse_overrides(options.override)
    for key in PER_NODE_KEYS:
        if key in overrides:
            raise ConfigError(f"--override {key}: --nodes sets this for each node")
    known = _known_nodes(data, options.nodes)
    held: list[socket.socket] = []
    host, first = _first_listener(options, known, held)
    moves = options.host is not None or bool(options.port)
    nodes = []
    for number in range(1, options.nodes + 1):
        node = _new_node(
            number, data, bracketed(host), first, is_new_cluster=not known, nodes=options.nodes
        )
        if number <= len(known):
            before = known[number - 1]
            node = before.replace(listener=node.listener) if moves else before
        nodes.append(node)
    servers = ",".join([node.controller for node in nodes if node.controller])
    settings = {**_replication(options.nodes), **overrides}
    texts = [_text(node, servers, {**_own_settings(node, options), **settings}) for node in nodes]
    return Plan(nodes, texts, len(known), held)


def _new_node(
    number: int, data: str, host: str, first: int, *, is_new_cluster: bool, nodes: int
) -> LocalNode:
    """A node; those that join a cluster later are brokers only."""
    port = first + number - 1
    is_controller = is_new_cluster and number <= controllers_of(nodes)
    return LocalNode(
        id=number,
        listener=f"{host}:{port}",
        controller=f"{host}:{port + CONTROLLER_PORTS}" if is_controller else "",
        directory=f"{data}/node-{number}",
        file=file_of(data, number),
    )


def _check_options(options: argparse.Namespace) -> None:
    for name, value in (
        ("a properties file", options.file),
        ("--node-id", options.node_id),
        ("--bootstrap", options.bootstrap or None),
    ):
        if value is not None:
            raise ConfigError(f"--nodes cannot be combined with {name}")
    if not 1 <= options.nodes <= MOST_NODES:
        raise ConfigError(f"--nodes {options.nodes}: expected 1 to {MOST_NODES}")


def file_of(data: str, number: int) -> str:
    return f"{data}/node-{number}.properties"


def _known_nodes(data: str, wanted: int) -> list[LocalNode]:
    """The nodes of the cluster in the data directory, as their files say."""
    if os.path.exists(f"{data}/meta.properties"):
        raise StorageError(
            f"{data} is the directory of a single node; give the cluster another with --data"
        )
    known: list[LocalNode] = []
    while os.path.exists(path := file_of(data, len(known) + 1)):
        known.append(_read_node(path, len(known) + 1, f"{data}/node-{len(known) + 1}"))
    if not any(_is_formatted(node.directory) for node in known):
        return []
    if len(known) > wanted:
        raise ConfigError(
            f"--nodes {wanted}: {data} holds a cluster of {len(known)} nodes; start them all with "
            f"--nodes {len(known)}, or another cluster with --data"
        )
    return known


def _read_node(path: str, number: int, directory: str) -> LocalNode:
    with open(path, encoding="utf-8") as file:
        pairs = parse(file.read())
    try:
        listeners = [it.partition("://")[2] for it in pairs["listeners"].split(",")]
        int(listeners[0].rpartition(":")[2])
        return LocalNode(number, listeners[0], "".join(listeners[1:]), directory, path)
    except (KeyError, ValueError) as error:
        raise StorageError(f"{path}: the listeners cannot be read: {error}") from None


def _is_formatted(directory: str) -> bool:
    return os.path.exists(f"{directory}/meta.properties")


def _first_listener(
    options: argparse.Namespace, known: Sequence[LocalNode], held: list[socket.socket]
) -> tuple[str, int]:
    """Host and port of node 1; those of the others follow. Known nodes keep theirs by default."""
    host, port = "127.0.0.1", DEFAULT_PORT
    if known:
        before, _, number = known[0].listener.rpartition(":")
        host, port = before.strip("[]"), int(number)
    host = host if options.host is None else options.host
    if options.port == 0 and not known:
        return host, _free_row(host, options.nodes, held)
    if options.port:
        port = options.port
    last = LAST_PORT - options.nodes + 1 - CONTROLLER_PORTS
    if not 0 < port <= last:
        raise ConfigError(
            f"--port {port}: expected 0, or 1 to {last}, because the controllers listen "
            f"{CONTROLLER_PORTS} ports above"
        )
    return host, port


def _free_row(host: str, count: int, held: list[socket.socket]) -> int:
    """The first of `count` free ports in a row with those of their controllers; they are held."""
    from kraftlog.server.ids import new_id
    from kraftlog.server.listening import bind

    for _ in range(FREE_ATTEMPTS):
        first = FREE_FROM + int.from_bytes(new_id()[:4], "big") % (FREE_TO - FREE_FROM)
        try:
            for number in range(count):
                held.append(bind(host, first + number))
                held.append(bind(host, first + number + CONTROLLER_PORTS))
        except OSError:
            while held:
                held.pop().close()
        else:
            return first
    raise ConfigError(f"--port 0: no {count} free ports in a row were found")


def controllers_of(nodes: int) -> int:
    """How many nodes are controllers: an odd number, as an even one tolerates no more failures."""
    return min(nodes - 1 + nodes % 2, 5)


def _replication(nodes: int) -> dict[str, str]:
    """Replication defaults; topics stay writable while one node is down, if there are three."""
    replicas = min(nodes, REPLICAS)
    least = max(replicas - 1, 1)
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(least),
        "offsets.topic.replication.factor": str(replicas),
    }


def _own_settings(node: LocalNode, options: argparse.Namespace) -> dict[str, str]:
    """Settings that differ from node to node; ports of HTTP are in a row, too, unless 0."""
    own = {}
    if node.id == 1 and options.nodes > 2:
        own["controller.quorum.election.timeout.ms"] = str(FIRST_ELECTION_MS)
    if options.http_port is not None:
        port = options.http_port + node.id - 1 if options.http_port > 0 else options.http_port
        own["kraftlog.http.port"] = str(port)
    return own


def _text(node: LocalNode, servers: str, settings: dict[str, str]) -> str:
    listeners = [f"PLAINTEXT://{node.listener}"]
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
    """What runs where, and where clients connect."""
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


def prepare(plan: Plan) -> list[str]:
    """Format new directories and write the files; return log lines for the operator."""
    _check(plan)
    _refuse_running(plan.nodes)
    empty = [node for node in plan.nodes if not plan.known or not _is_formatted(node.directory)]
    notes = _format(plan, empty) if empty else []
    for node, text in reversed([*zip(plan.nodes, plan.texts, strict=True)]):
        _write(node.file, text)
    return notes


def _check(plan: Plan) -> None:
    """Refuse settings that no node would start with, before anything is written."""
    from kraftlog.config.read_config import read_config
    from kraftlog.config.safety import refuse_unsafe

    for text in plan.texts:
        config, _ = read_config(text, {})
        refuse_unsafe(config)


def _refuse_running(nodes: Sequence[LocalNode]) -> None:
    """Refuse directories that running nodes use: their files are not to change under them."""
    from kraftlog.server.files import OsFiles
    from kraftlog.storage.directory import LOCK

    files = OsFiles()
    for node in nodes:
        if _is_formatted(node.directory):
            files.close(files.lock(f"{node.directory}/{LOCK}"))


def _format(plan: Plan, empty: Sequence[LocalNode]) -> list[str]:
    """Format the directories of a new cluster, or of nodes that join one."""
    from kraftlog.config.endpoints import Voter
    from kraftlog.node.controller.active_controller import first_levels
    from kraftlog.server.files import OsFiles
    from kraftlog.server.ids import new_id
    from kraftlog.server.loop import read_clock
    from kraftlog.storage.format import DirectoryFormat, format_directory
    from kraftlog.storage.meta_properties import load
    from kraftlog.types import uuid_text

    files = OsFiles()
    voters: list[endpoints.Voter] | None = None
    ids = {node.id: new_id() for node in empty}
    if plan.known:
        formatted = next(node for node in plan.nodes if _is_formatted(node.directory))
        cluster_id = load(files, formatted.directory).cluster_id
    else:
        _refuse_data(plan.nodes)
        cluster_id = uuid_text(new_id())
        voters = [
            Voter(node.id, *_server(node.controller), ids[node.id])
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
        )
        directory = formatting.metadata_directory
        format_directory(files, directory, ids[node.id], formatting, read_clock().wall_ms)
    return [
        f"node {node.id}: {node.directory} was empty and has been formatted; the node copies what "
        "it had from the others"
        for node in empty
        if node.id <= plan.known
    ]


def _server(address: str) -> tuple[str, int]:
    from kraftlog.config.endpoints import parse_server

    server = parse_server(address)
    if server is None:
        raise ConfigError(f"--host: other nodes cannot connect to {address}")
    return server


def _refuse_data(nodes: Sequence[LocalNode]) -> None:
    """Refuse directories with data: without the file of node 1, no node should have run."""
    for node in nodes:
        folder = f"{node.directory}/__cluster_metadata-0"
        if os.path.isdir(folder) and any(name.endswith(".log") for name in os.listdir(folder)):
            raise StorageError(
                f"{node.directory} holds the data of a node, but there is no {nodes[0].file}"
            )


def _write(path: str, text: str) -> None:
    """Replace the file, unless it says this already."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except FileNotFoundError:
        pass
    from kraftlog.server.files import OsFiles
    from kraftlog.storage.disk import write_atomically

    write_atomically(OsFiles(), path, text.encode())
