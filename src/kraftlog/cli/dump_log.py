"""`kraftlog dump-log`: the flags of `kafka-dump-log`, for local files."""

from __future__ import annotations

import os

from kraftlog.cli.common import UsageError, add_version, run_guarded
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence


def _parser() -> argparse.ArgumentParser:
    from argparse import SUPPRESS

    from kraftlog.client.arguments import MAX_INT32
    from kraftlog.client.command_parser import CommandParser, whole_number

    parser = CommandParser(
        prog="kraftlog dump-log",
        usage="kraftlog dump-log --files FILE,... [options]",
        description="Print the contents of log segments, indexes, snapshots and checkpoints.",
        epilog="example: kraftlog dump-log --files data/demo-0/00000000000000000000.log "
        "--print-data-log",
    )
    parser.add_argument("--files", required=True, metavar="FILE,...")
    parser.add_argument(
        "--deep-iteration", action="store_true", help="print records, not only batches"
    )
    parser.add_argument("--print-data-log", action="store_true", help="print keys and values")
    for name, records in _DECODERS.items():
        parser.add_argument(
            f"--{name}", dest="decoder", action="store_const", const=name, help=f"decode {records}"
        )
    parser.add_argument(
        "--skip-record-metadata", action="store_true", help="print only keys and values"
    )
    parser.add_argument(
        "--max-bytes",
        type=whole_number(1),
        default=MAX_INT32,
        metavar="N",
        help="bytes to read of each file",
    )
    parser.add_argument("--index-sanity-check", action="store_true", help="check indexes only")
    parser.add_argument(
        "--verify-index-only", action="store_true", help="verify indexes without printing entries"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object per batch or entry"
    )
    add_version(parser)
    parser.add_argument("--max-message-size", type=whole_number(), help=SUPPRESS)
    return parser


_DECODERS = {
    "cluster-metadata-decoder": "records of __cluster_metadata",
    "offsets-decoder": "records of __consumer_offsets",
    "transaction-log-decoder": "records of __transaction_state",
}


def run(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    return run_guarded("dump-log", lambda: _dump_all(options))


def _dump_all(options: argparse.Namespace) -> int:
    """Print the files; return 1 if any is corrupt."""
    from kraftlog.cli import dump_files, dump_segment

    dump_functions: dict[str, Callable[[str, argparse.Namespace], bool]] = {
        ".log": dump_segment.dump,
        ".checkpoint": dump_segment.dump,
        ".index": dump_files.dump_offset_index,
        ".timeindex": dump_files.dump_time_index,
        ".txnindex": dump_files.dump_transaction_index,
        ".snapshot": dump_files.dump_producers,
    }
    is_valid = True
    for path in options.files.split(","):
        extension = os.path.splitext(path)[1]
        if extension not in dump_functions:
            raise UsageError(
                f"{path}: expected a name ending with one of {', '.join(dump_functions)}"
            )
        if not options.json:
            print(f"Dumping {path}")
        is_valid &= dump_functions[extension](path, options)
    return 0 if is_valid else 1
