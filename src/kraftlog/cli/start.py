"""`kraftlog start`: run a node, or the nodes of a local cluster, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import os
import sys

from kraftlog.config.endpoints import MAX_PORT
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.config.broker import BrokerConfig

MAX_NODES = 100
#: Settings of a node without a file: a single-node cluster.
STANDALONE = """\
process.roles=broker,controller
node.id={node_id}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:0
controller.listener.names=CONTROLLER
controller.quorum.voters={node_id}@{host}:0
log.dirs={data}
"""


def _parser() -> argparse.ArgumentParser:
    from kraftlog.client.command_parser import CommandParser, not_empty, whole_number

    parser = CommandParser(
        prog="kraftlog start",
        description="Start a node from server.properties; without it, a cluster of one node or, "
        "with --nodes, of several.",
    )
    parser.add_argument("file", nargs="?", metavar="server.properties")
    parser.add_argument(
        "--nodes",
        type=whole_number(1, MAX_NODES),
        metavar="N",
        help="start a cluster of N nodes on this machine, with consecutive ports and directories",
    )
    parser.add_argument(
        "--data", type=not_empty, metavar="DIR", help="data directory; default: ./data"
    )
    parser.add_argument(
        "--host", type=not_empty, help="listen address; default: 127.0.0.1, or the file's"
    )
    parser.add_argument(
        "--port",
        type=whole_number(0, MAX_PORT),
        help="listen port; default: 9092, or the file's; 0: any free port",
    )
    parser.add_argument(
        "--http-port",
        type=whole_number(0, MAX_PORT),
        metavar="N",
        help="port of /metrics and /health; default: off",
    )
    parser.add_argument("--node-id", type=whole_number(), metavar="N", help="node id; default: 1")
    parser.add_argument(
        "--bootstrap",
        action="store_true",
        help="with a file: format an empty directory for a new cluster whose first leader makes "
        "the cluster id; needed on every node",
    )
    parser.add_argument(
        "--secure",
        type=not_empty,
        metavar="DIR",
        help="a local cluster, of one node by default, with TLS and a login: DIR gets its "
        "certificates, its data, and client.properties for clients",
    )
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a property that takes precedence over the file; repeatable",
    )
    parser.add_argument(
        "--stop-at-eof", action="store_true", help="stop when standard input, a pipe, ends"
    )
    return parser


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    return _parser().parse_args(arguments)


def run(arguments: Sequence[str]) -> int:
    options = options_of(arguments)
    if options.stop_at_eof:
        _stop_at_eof()
    from kraftlog.cli.common import UsageError
    from kraftlog.errors import KraftlogError, message_of

    try:
        is_cluster = options.nodes is not None or options.secure is not None
        return _run_cluster(options) if is_cluster else _run_node(options)
    except UsageError as error:
        print(f"kraftlog: {error}; see kraftlog start --help", file=sys.stderr)
        return 2
    except (KraftlogError, ValueError, OSError) as error:
        print(f"kraftlog: {message_of(error)}", file=sys.stderr)
        return 1


def _run_node(options: argparse.Namespace) -> int:
    from kraftlog.server.operator_log import log_line
    from kraftlog.server.start import serve

    settings, warnings = _checked_settings(options)
    for line in warnings:
        log_line(f"kraftlog: {line}")
    serve(
        settings,
        ready=lambda text: log_line(text, sys.stdout),
        may_format=options.file is None,
        bootstrap=options.bootstrap,
        config_file=options.file or "FILE",
    )
    return 0


def _checked_settings(options: argparse.Namespace) -> tuple[BrokerConfig, list[str]]:
    """As `read_settings`; an error is one of the command line if the file itself is valid."""
    from kraftlog.cli.common import UsageError
    from kraftlog.cli.config_file import load_config
    from kraftlog.errors import ConfigError

    try:
        return read_settings(options)
    except ConfigError as error:
        if options.file is not None:
            load_config(options.file, {})
        raise UsageError(str(error)) from None


def _run_cluster(options: argparse.Namespace) -> int:
    from kraftlog.cli import local_cluster
    from kraftlog.cli.supervisor import Supervisor
    from kraftlog.server.operator_log import log_line

    security = None
    if options.secure is not None:
        from kraftlog.cli.secured_folder import SecuredFolder

        security = SecuredFolder.open(options.secure)
        os.umask(0o077)  # the nodes' files have passwords and keys, too
    plan = local_cluster.plan(options, security)
    for note in local_cluster.prepare(plan):
        log_line(f"kraftlog: {note}")
    supervisor = Supervisor(
        plan.nodes, lambda pids: log_line(local_cluster.table(plan.nodes, pids), sys.stdout)
    )
    return supervisor.run()


def _stop_at_eof() -> None:
    """Send this process SIGTERM once standard input ends, because its writer has exited."""
    import signal
    from threading import Thread

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=wait, name="stdin", daemon=True).start()


def read_settings(options: argparse.Namespace) -> tuple[BrokerConfig, list[str]]:
    """The settings of a file or of a single-node cluster, and warnings about them."""
    from kraftlog.cli.config_file import load_config
    from kraftlog.config.properties import parse_overrides
    from kraftlog.config.read_config import read_config

    overrides = parse_overrides(options.override)
    if options.http_port is not None:
        overrides["kraftlog.http.port"] = str(options.http_port)
    if options.file is None:
        _refuse_cluster(options.data or "data")
        text = STANDALONE.format(
            node_id=overrides.get("node.id", "1") if options.node_id is None else options.node_id,
            host=options.host or "127.0.0.1",
            port=9092 if options.port is None else options.port,
            data=options.data or overrides.get("log.dir", "data"),
        )
        return read_config(text, overrides)
    for key, value in (("node.id", options.node_id), ("log.dirs", options.data)):
        if value is not None:
            overrides[key] = str(value)
    if options.port is not None or options.host is not None:
        config, _ = load_config(options.file, overrides)
        overrides["listeners"] = _moved_listeners(config, options.host, options.port)
    return load_config(options.file, overrides)


def _refuse_cluster(data: str) -> None:
    """Refuse the data directory of a local cluster, as a single node would format it."""
    if os.path.exists(f"{data}/node-1.properties"):
        from kraftlog.errors import StorageError

        raise StorageError(
            f"{data} holds the nodes of a cluster: start it with --nodes, or one of its nodes "
            f"with its file, such as {data}/node-1.properties"
        )


def _moved_listeners(config: BrokerConfig, host: str | None, port: int | None) -> str:
    """`listeners` with another host and port for the first broker listener, or else the first."""
    first = (config.broker_listeners or config.listeners)[0]
    moved = first.replace(
        host=first.host if host is None else host, port=first.port if port is None else port
    )
    return ",".join(
        [str(moved if listener == first else listener) for listener in config.listeners]
    )
