"""`kraftlog delete-records`: the flags of `kafka-delete-records`."""

from __future__ import annotations

from kraftlog.cli.common import new_parser, run_with_client
from kraftlog.cli.show import print_json, print_table
from kraftlog.client.arguments import MAX_INT64
from kraftlog.client.properties import read_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kraftlog.client.client import Client
    from kraftlog.client.model import PartitionName


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(
        "delete-records",
        "Delete the records before given offsets (-1: all of a partition).",
        "--offset-json-file offsets.json\n"
        '  offsets.json: {"partitions": [{"topic": "demo", "partition": 0, "offset": 100}]}',
    )
    parser.add_argument("--offset-json-file", required=True, metavar="FILE")
    return parser


def run(arguments: Sequence[str]) -> int:
    return run_with_client("delete-records", _parser().parse_args(arguments), _delete)


def _delete(client: Client, options: argparse.Namespace) -> None:
    path = options.offset_json_file
    try:
        offsets = offsets_in(read_text(path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    log_starts = client.delete_records(offsets)
    rows = [(*name, offset) for name, offset in log_starts.items()]
    if options.json:
        names = ("topic", "partition", "first_offset")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(("TOPIC", "PARTITION", "FIRST OFFSET"), rows)


_FORMAT = '{"partitions": [{"topic": …, "partition": …, "offset": …}]}'


def offsets_in(text: str) -> dict[PartitionName, int]:
    """Parse a file in the format of kafka-delete-records into an offset per partition."""
    from kraftlog.cli.json_entries import Entries

    offsets: dict[PartitionName, int] = {}
    entries = Entries(text, "partitions", _FORMAT)
    for entry in entries.all:
        name = (entries.topic(entry), entries.number(entry, "partition"))
        if name in offsets:
            raise ValueError(f"{name[0]}-{name[1]} appears twice")
        offsets[name] = entries.number(entry, "offset", -1, MAX_INT64)
    return offsets
