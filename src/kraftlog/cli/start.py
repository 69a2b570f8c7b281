"""`kraftlog start`: run a node until Ctrl-C or SIGTERM."""

from __future__ import annotations

import sys

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.config.broker import BrokerConfig

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
    import argparse

    parser = argparse.ArgumentParser(
        prog="kraftlog start",
        description="Start a node from server.properties, or a single-node cluster without it.",
    )
    parser.add_argument("file", nargs="?", metavar="server.properties")
    parser.add_argument("--data", metavar="DIR", help="data directory; default: ./data")
    parser.add_argument("--host", help="listen address; default: 127.0.0.1, or the file's")
    parser.add_argument(
        "--port", type=int, help="listen port; default: 9092, or the file's; 0: any free port"
    )
    parser.add_argument(
        "--http-port", type=int, metavar="N", help="port of /metrics and /health; default: off"
    )
    parser.add_argument("--node-id", type=int, metavar="N", help="node id; default: 1")
    parser.add_argument(
        "--bootstrap",
        action="store_true",
        help="with a file: format an empty directory for a new cluster whose first leader makes "
        "the cluster id; needed on every node",
    )
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a property that takes precedence over the file; repeatable",
    )
    return parser


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    return _parser().parse_args(arguments)


def run(arguments: Sequence[str]) -> int:
    options = options_of(arguments)
    from kraftlog.errors import KraftlogError, in_words
    from kraftlog.server.operator_log import log_line
    from kraftlog.server.start import serve

    try:
        settings, warnings = read_settings(options)
        for line in warnings:
            log_line(f"kraftlog: {line}")
        serve(
            settings,
            ready=lambda text: log_line(text, sys.stdout),
            may_format=options.file is None,
            bootstrap=options.bootstrap,
        )
    except (KraftlogError, ValueError, OSError) as error:
        print(f"kraftlog: {in_words(error)}", file=sys.stderr)
        return 1
    return 0


def read_settings(options: argparse.Namespace) -> tuple[BrokerConfig, list[str]]:
    """The settings of a file or of a single-node cluster, and warnings about them."""
    from kraftlog.cli.config_file import load_config
    from kraftlog.config.properties import parse_overrides
    from kraftlog.config.read_config import read_config

    overrides = parse_overrides(options.override)
    if options.http_port is not None:
        overrides["kraftlog.http.port"] = str(options.http_port)
    if options.file is None:
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


def _moved_listeners(config: BrokerConfig, host: str | None, port: int | None) -> str:
    """`listeners` with another host and port for the first client listener, or the first."""
    first = (config.broker_listeners or config.listeners)[0]
    moved = first.replace(
        host=first.host if host is None else host, port=first.port if port is None else port
    )
    return ",".join([str(moved if each == first else each) for each in config.listeners])
