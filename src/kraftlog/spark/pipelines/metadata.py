"""`kraftlog pipeline metadata`: the cluster as it was, from the metadata log.

One process folds the log: this takes less time than Spark needs to start, so nothing here starts
it. With --to the tables are written in Delta's format, for Spark and everything else that reads it.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from kraftlog.client.client import Client
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
from kraftlog.client.properties import timeout_s
from kraftlog.client.text_table import table
from kraftlog.metadata.tables import OPTIONAL, TABLES_OF_IMAGE, differences, rows_of
from kraftlog.spark.pipelines.common import DONE, Pipeline, parser, run_pipeline
from kraftlog.spark.pipelines.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kraftlog.metadata.history import MetadataState, Moment
    from kraftlog.metadata.tables import Row


def run(arguments: Sequence[str]) -> int:
    made = parser(
        "metadata",
        "Print the cluster as it was at an offset of the metadata log or at a time, or what has "
        "changed between two.\nReads a live cluster or a copied data directory, of Apache Kafka "
        "as well. Spark is not started.",
        "--as-of 2026-01-31T12:00:00 --table partitions",
        uses_spark=False,
    )
    made.add_argument(
        "--as-of",
        metavar="OFFSET|TIME",
        help="after the record at this offset, or at this time (UTC or with +HH:MM); default: "
        f"{LATEST}",
    )
    made.add_argument(
        "--diff",
        nargs=2,
        metavar=("A", "B"),
        help=f"what has changed from A to B: offsets, times or {LATEST}",
    )
    made.add_argument(
        "--table",
        action="append",
        choices=list(TABLES_OF_IMAGE),
        help="only this table; repeatable",
    )
    made.add_argument(
        "--data", metavar="DIR", help="a copied data directory, instead of a live cluster"
    )
    made.add_argument(
        *("-C", "--bootstrap-controller"),
        metavar="HOST:PORT,...",
        help="controllers to bootstrap from, instead of brokers",
    )
    made.add_argument(
        "--to", metavar="DIR", help="write each table as a Delta table in this directory"
    )
    options = made.parse_args(arguments)
    return run_pipeline("metadata", options, _run)


def _run(pipeline: Pipeline) -> int:
    options = pipeline.options
    if options.diff and (options.as_of or options.to):
        raise UsageError("--diff is for neither --as-of nor --to")
    names = options.table or list(TABLES_OF_IMAGE)
    moments = [moment(text) for text in options.diff or [options.as_of or LATEST]]
    with _log(pipeline) as log:
        states = [log.state_at(each) for each in moments]
    if options.diff:
        found = list(differences(states[0], states[1], names))
        data = {
            "from": position(states[0]),
            "to": position(states[1]),
            "changes": [change_data(each) for each in found],
        }
        pipeline.progress.result(data, diff_text(states[0], states[1], found))
        return DONE
    [state] = states
    if options.to and not options.dry_run:
        for name in names:
            _write(os.path.join(options.to, name), name, state)
    tables = {name: rows_of(state, name) for name in names}
    pipeline.progress.result(
        {"as_of": position(state), "tables": tables}, _text(state, tables, options.to)
    )
    return DONE


def moment(text: str) -> Moment:
    try:
        return moment_of(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


@contextmanager
def _log(pipeline: Pipeline) -> Iterator[MetadataFolder | MetadataQuorum]:
    """The folder of --data, or the metadata log of the cluster of the options."""
    options, properties = pipeline.options, pipeline.properties
    if options.data:
        yield MetadataFolder(options.data)
        return
    client = Client(
        options.bootstrap_controller or options.bootstrap_server,
        timeout_s=timeout_s(properties),
        client_id=properties.get("client.id", "kraftlog"),
        controllers=bool(options.bootstrap_controller),
    )
    with client, closing(MetadataQuorum(client.cluster)) as log:
        yield log


# Output ------------------------------------------------------------------------------------------


def _text(state: MetadataState, tables: dict[str, list[Row]], to: str | None) -> str:
    parts = [f"as of {position_text(state)}"]
    if to:
        counts = ", ".join(f"{len(rows)} {name}" for name, rows in tables.items())
        parts.append(f"{to}: {counts}")
        return "\n".join(parts)
    for name, rows in tables.items():
        if name == "voters" and state.voters is None:
            parts.append(f"\n{name}: not in the metadata log, so those of the configuration")
            continue
        if name in OPTIONAL and not rows and len(tables) == len(TABLES_OF_IMAGE):
            continue
        # A column in which no row has anything says nothing.
        columns = [
            column
            for column in TABLES_OF_IMAGE[name].columns
            if any(row[column] not in (None, []) for row in rows)
        ]
        parts.append(f"\n{name}: {len(rows)}")
        if rows:
            heads = [column.upper().replace("_", " ") for column in columns]
            parts.append(table(heads, [[cell(row[column]) for column in columns] for row in rows]))
    return "\n".join(parts)


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

    def kind(column: str) -> pa.DataType:
        if column in _NUMBERS:
            return pa.int64()
        if column in _LISTS:
            return pa.list_(pa.int32())
        if column in {"endpoints", "directories"}:
            return pa.list_(pa.string())
        return pa.string()

    return pa.schema([(column, kind(column)) for column in TABLES_OF_IMAGE[name].columns])


_NUMBERS = {
    *("partition", "leader", "leader_epoch", "partition_epoch", "partitions", "replication"),
    *("broker", "epoch", "level", "voter", "iterations"),
}
_LISTS = {"replicas", "isr", "elr", "last_known_elr", "adding", "removing"}
