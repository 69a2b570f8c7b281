"""`kraftlog start`: run a node until Ctrl-C or SIGTERM."""

from __future__ import annotations

import sys

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def _parser() -> argparse.ArgumentParser:
    import argparse

    parser = argparse.ArgumentParser(
        prog="kraftlog start",
        description="Run a node: one broker with the topics that are named here.",
    )
    parser.add_argument("--data", default="data", metavar="DIR", help="default: ./data")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen; default: 127.0.0.1")
    parser.add_argument("--port", type=int, default=9092, help="default: 9092; 0: any free one")
    parser.add_argument("--node-id", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS]",
        help="a topic to serve; may be given several times; default: demo with one partition",
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    from kraftlog.errors import KraftlogError
    from kraftlog.server.start import Settings, serve

    try:
        settings = Settings(options.data, options.host, options.port, options.node_id)
        serve(settings, ready=lambda text: print(text, flush=True))
    except (KraftlogError, ValueError, OSError) as error:
        print(f"kraftlog: {error}", file=sys.stderr)
        return 1
    return 0


def _topic(text: str) -> tuple[str, int]:
    name, _, count = text.partition(":")
    if not name or len(name) > 249 or not set(name) <= _LEGAL or name in {".", ".."}:
        raise ValueError(
            f"--topic {text}: a topic's name is 1 to 249 letters, digits, dots, dashes and "
            "underscores"
        )
    if count and not (count.isdecimal() and 1 <= int(count) <= 10_000):
        raise ValueError(f"--topic {text}: the number of partitions is between 1 and 10000")
    return name, int(count or 1)


_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
