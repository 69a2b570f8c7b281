"""`kraftlog pipeline metadata`: the cluster at an earlier time, from the metadata log.

A single process replays the log, in less time than Spark needs to start, so Spark is not started.
With --to the tables are written as Delta tables, for Spark and other readers.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from kraftlog.client.command_parser import servers
from kraftlog.client.metadata_folder import MetadataFolder
from kraftlog.client.metadata_quorum import MetadataQuorum
from kraftlog.client.metadata_text import (
    LATEST,
    cell,
    change_data,
    diff_text,
    moment_of,
    position,
    position_text,
)
from kraftlog.client.properties import DEFAULT_SERVER, client_by
from kraftlog.client.text_table import table
from kraftlog.metadata.tables import OPTIONAL, TABLES_OF_IMAGE, differences, rows_of
from kraftlog.metadata.values import is_internal
from kraftlog.spark.pipelines.common import DONE, FINDINGS, Pipeline, parser, run_pipeline
from kraftlog.spark.pipelines.directories import check_writable
from kraftlog.spark.pipelines.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from kraftlog.metadata.history import MetadataState, Moment
    from kraftlog.metadata.tables import Row


def run(arguments: Sequence[str]) -> int:
    command_line = parser(
        "metadata",
        "Print the cluster as it was at an offset of the metadata log or at a time, or the changes "
        "between two of these.\nReads the log from a running cluster or a copied data directory, "
        "also of Apache Kafka. Spark is not started.",
        "--as-of 2026-01-31T12:00:00 --table partitions",
        uses_spark=False,
    )
    command_line.add_argument(
        "--as-of",
        metavar="OFFSET|TIME",
        help="after the record at this offset, or at this time (UTC or with +HH:MM); default: "
        f"{LATEST}",
    )
    command_line.add_argument(
        "--diff",
        nargs=2,
        metavar=("A", "B"),
        help=f"the changes from A to B: offsets, times or {LATEST}",
    )
    command_line.add_argument(
        "--table",
        action="append",
        choices=list(TABLES_OF_IMAGE),
        help="only this table; repeatable",
    )
    command_line.add_argument(
        "--data", metavar="DIR", help="read a copied data directory instead of a running cluster"
    )
    command_line.add_argument(
        *("-C", "--bootstrap-controller"),
        type=servers,
        metavar="HOST:PORT,...",
        help="controllers to bootstrap from, instead of brokers",
    )
    command_line.add_argument(
        "--to", metavar="DIR", help="write each table as a Delta table in this directory"
    )
    command_line.add_argument(
        "--history",
        metavar="DIR",
        help="append each change of the log, as a row, to the Delta table in this directory; a "
        "later run appends only what is new",
    )
    command_line.add_argument(
        "--internal",
        action="store_true",
        help="also print internal topics, such as __consumer_offsets; --json and --to always "
        "include them",
    )
    command_line.set_defaults(bootstrap_server=None)  # to notice whether the user gave it
    options = command_line.parse_args(arguments)
    return run_pipeline("metadata", options, _run)


def _run(pipeline: Pipeline) -> int:
    options = pipeline.options
    if options.diff and (options.as_of or options.to):
        raise UsageError("--diff cannot be combined with --as-of or --to")
    if options.history and (options.diff or options.to or options.table):
        raise UsageError("--history cannot be combined with --diff, --to or --table")
    _check_single_source(options)
    if options.to:
        check_writable(options.to)
    if options.history:
        check_writable(options.history, "--history")
        return _append_history(pipeline)
    names = options.table or list(TABLES_OF_IMAGE)
    moments = [_moment(text) for text in options.diff or [options.as_of or LATEST]]
    with _metadata_log(pipeline) as log:
        states = [log.state_at(moment) for moment in moments]
        damage = log.damage
    _print_result(pipeline, states, names, {"damage": damage} if damage else {})
    return _exit_code(damage)


def _exit_code(damage: str) -> int:
    if damage:
        print(f"kraftlog pipeline metadata: {damage}", file=sys.stderr, flush=True)
        return FINDINGS
    return DONE


def _append_history(pipeline: Pipeline) -> int:
    """Append changes to the table of --history."""
    from kraftlog.spark.pipelines.metadata_history import HistoryTable

    options = pipeline.options
    history = HistoryTable(options.history)
    with _metadata_log(pipeline) as log:
        until = _moment(options.as_of or LATEST)
        appended = history.append(log, until, is_dry=options.dry_run)
        damage = log.damage
    if appended.skipped is not None:
        first, last = appended.skipped
        pipeline.progress.say(
            f"the records at offsets {first} to {last} were deleted before a run has read them: "
            "what they have changed is from a snapshot, as of its last offset",
            skipped=[first, last],
        )
    state = appended.state
    data = {"as_of": position(state), "rows": appended.rows, "skipped": appended.skipped}
    rows = f"{appended.rows:,} {'change' if appended.rows == 1 else 'changes'}"
    what = f"{rows} would be appended" if options.dry_run else f"{rows} appended"
    pipeline.progress.result(
        {**data, **({"damage": damage} if damage else {})},
        f"{options.history}: {what}, up to {position_text(state)}",
    )
    return _exit_code(damage)


def _print_result(
    pipeline: Pipeline,
    states: Sequence[MetadataState],
    names: Sequence[str],
    damage: Mapping[str, str],
) -> None:
    """Print the state, or the changes between two; with --to, write the tables of the state."""
    options = pipeline.options
    if options.diff:
        changes = list(differences(states[0], states[1], names))
        data = {
            "from": position(states[0]),
            "to": position(states[1]),
            "changes": [change_data(change) for change in changes],
            **damage,
        }
        shown = (
            changes
            if options.internal
            else [change for change in changes if not _is_internal(change.key)]
        )
        text = diff_text(states[0], states[1], shown)
        pipeline.progress.result(
            data, "\n".join([text, *_left_out_line(len(changes) - len(shown))])
        )
        return
    [state] = states
    if options.to and not options.dry_run:
        for name in names:
            _write(os.path.join(options.to, name), name, state)
    tables = {name: rows_of(state, name) for name in names}
    text = _written_text(state, tables, options) if options.to else _text(state, tables, options)
    pipeline.progress.result({"as_of": position(state), "tables": tables, **damage}, text)


def _check_single_source(options: argparse.Namespace) -> None:
    """Raise UsageError for more than one source: a directory, controllers, brokers."""
    sources = {
        "--data": options.data,
        "--bootstrap-controller": options.bootstrap_controller,
        "--bootstrap-server": options.bootstrap_server,
    }
    names = [name for name, value in sources.items() if value]
    if options.data and options.command_config:
        names.append("--command-config")
    if len(names) > 1:
        raise UsageError(
            f"{' and '.join(names)}: give only one of them, as each names a source of the log"
        )


def _moment(text: str) -> Moment:
    """Parse an offset or a time; raises UsageError."""
    try:
        return moment_of(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


@contextmanager
def _metadata_log(pipeline: Pipeline) -> Iterator[MetadataFolder | MetadataQuorum]:
    """The metadata log in the directory of --data, or else that of the cluster."""
    options, properties = pipeline.options, pipeline.properties
    if options.data:
        yield MetadataFolder(options.data)
        return
    controllers = options.bootstrap_controller
    servers = controllers or options.bootstrap_server or DEFAULT_SERVER
    client = client_by(properties, servers, controllers=bool(controllers))
    with client, closing(MetadataQuorum(client.cluster)) as log:
        yield log


# Output ------------------------------------------------------------------------------------------


def _written_text(
    state: MetadataState, tables: dict[str, list[Row]], options: argparse.Namespace
) -> str:
    counts = ", ".join(f"{len(rows)} {name}" for name, rows in tables.items())
    would = "would be written: " if options.dry_run else ""
    return f"as of {position_text(state)}\n{options.to}: {would}{counts}"


def _text(state: MetadataState, tables: dict[str, list[Row]], options: argparse.Namespace) -> str:
    parts = [f"as of {position_text(state)}"]
    hidden = 0
    for name, all_rows in tables.items():
        rows = all_rows
        if not options.internal:
            rows = [row for row in all_rows if not _is_internal((row.get("topic"),))]
        hidden += len(all_rows) - len(rows)
        if name == "voters" and state.voters is None:
            parts.append(f"\n{name}: not in the metadata log; the nodes' configuration has them")
            continue
        if name in OPTIONAL and not rows and len(tables) == len(TABLES_OF_IMAGE):
            continue
        # A column that is empty in every row is left out.
        columns = [
            column
            for column in TABLES_OF_IMAGE[name].columns
            if any(row[column] not in (None, []) for row in rows)
        ]
        parts.append(f"\n{name}: {len(rows)}")
        if rows:
            heads = [column.upper().replace("_", " ") for column in columns]
            parts.append(table(heads, [[cell(row[column]) for column in columns] for row in rows]))
    return "\n".join([*parts, *_left_out_line(hidden)])


def _is_internal(key: tuple[object, ...]) -> bool:
    """Whether the key of a row begins with the name of an internal topic."""
    return bool(key) and isinstance(key[0], str) and is_internal(key[0])


def _left_out_line(count: int) -> list[str]:
    """The line on rows of internal topics that are not printed; an empty list if there are none."""
    rows = "row" if count == 1 else "rows"
    return [f"\n{count} {rows} of internal topics left out; --internal prints them"] * bool(count)


# Delta -------------------------------------------------------------------------------------------


def _write(path: str, name: str, state: MetadataState) -> None:
    """Replace the rows of a Delta table; its earlier versions stay readable."""
    import pyarrow as pa
    from deltalake import CommitProperties, write_deltalake

    rows = pa.Table.from_pylist(rows_of(state, name), schema=_schema(name))
    record = CommitProperties(custom_metadata={"kraftlog": position(state)})
    write_deltalake(path, rows, mode="overwrite", commit_properties=record)


def _schema(name: str) -> pa.Schema:
    import pyarrow as pa

    def column_type(column: str) -> pa.DataType:
        if column in _NUMBERS:
            return pa.int64()
        if column in _LISTS:
            return pa.list_(pa.int32())
        if column in {"endpoints", "directories"}:
            return pa.list_(pa.string())
        return pa.string()

    return pa.schema([(column, column_type(column)) for column in TABLES_OF_IMAGE[name].columns])


#: The columns of whole numbers, and of lists of broker ids.
_NUMBERS = {
    *("partition", "leader", "leader_epoch", "partition_epoch", "partitions", "replication"),
    *("broker", "epoch", "level", "voter", "iterations"),
    *("issued_ms", "expires_ms", "max_ms"),
}
_LISTS = {"replicas", "isr", "elr", "last_known_elr", "adding", "removing"}
