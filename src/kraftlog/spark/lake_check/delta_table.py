"""Reads a Delta table of one topic's records, and what is wrong with its log."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from kraftlog.errors import ConfigError
from kraftlog.spark.lake import layout
from kraftlog.spark.lake.state import PROPERTY, is_durable, state_of
from kraftlog.spark.lake_check.delta_log import read_delta_log
from kraftlog.spark.lake_check.findings import DELTA_LOG as DAMAGED_LOG
from kraftlog.spark.lake_check.findings import UNREADABLE, Finding
from kraftlog.spark.lake_check.lake_files import OFFSET, PARTITION, TIMESTAMP
from kraftlog.spark.lake_check.tables import (
    DamagedTableError,
    FileAction,
    LakeTable,
    archived_until,
    compared_columns,
    extended_spans,
    is_without_position,
    with_spans,
    wrong_columns,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from kraftlog.spark.lake_check.delta_log import DeltaLog
    from kraftlog.spark.lake_check.state_chain import State

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def open_delta_table(
    directory: str, topic: str, committed: Mapping[int, int] = MappingProxyType({})
) -> LakeTable:
    """Read a table's log; raise DamagedTableError if it cannot be read.

    `committed` has the offsets up to which the archive says that partitions are archived.
    """
    log = read_delta_log(directory)
    damage = [Finding(DAMAGED_LOG, topic, -1, 0, note=text) for text in log.damage]
    try:
        table = DeltaTable(directory)
        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        schema = pa.schema(table.schema().to_arrow())
        metadata = table.metadata()
        features = {*(table.protocol().reader_features or ())}
    except BaseException as error:  # a damaged log may even make deltalake's Rust code panic
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        note = f"the table cannot be opened: {reason}"
        raise DamagedTableError([*damage, Finding(DAMAGED_LOG, topic, -1, 0, note=note)]) from error
    if "columnMapping" in features or table.protocol().min_reader_version == 2:
        raise ConfigError(f"{directory} has column mapping, so its files have other column names")
    recorded = _recorded(table, log)
    state = recorded.state
    damage += [Finding(DAMAGED_LOG, topic, -1, 0, note=text) for text in recorded.damage]
    is_archive = bool(state) or (metadata.description or "").endswith(layout.ARCHIVED_BY)
    decode = state.get("decode", "") if is_archive else ""
    damage += wrong_columns(topic, schema, metadata.partition_columns, decode)
    if is_archive and log.is_complete and not log.state:
        text = "no commit has the archive's offsets"
        damage.append(Finding(DAMAGED_LOG, topic, -1, 0, note=text))
    files = tuple(_action(directory, each) for each in actions)
    damage += _differences_to_log(topic, directory, files, log, table)
    if is_without_position(schema, metadata.partition_columns):
        if is_archive:
            raise DamagedTableError(damage)
        raise ConfigError(f"{directory} has no columns partition and offset: not a topic's records")
    deleted, unreadable = _deleted_rows(table, topic, features)
    compared, not_compared = compared_columns(schema, metadata.partition_columns)
    opened = LakeTable(
        topic=topic,
        directory=directory,
        table_id=str(metadata.id),
        version=table.version(),
        compared=compared,
        not_compared=not_compared,
        files=files,
        spans=(),
        is_partitioned=PARTITION in metadata.partition_columns,
        deleted=deleted,
        is_archive=is_archive,
        archived=recorded.archived,
        state=state,
        topic_id=state.get("topicId", ""),
        findings=(*damage, *unreadable),
    )
    return archived_until(with_spans(opened), committed if is_archive else {})


class _Recorded(NamedTuple):
    """What the archive says of the table: in commits, and where it outlives their cleanup."""

    state: State
    archived: dict[int, tuple[int, int]]
    #: Sentences about what contradicts the commits, or cannot be read.
    damage: tuple[str, ...]


def _recorded(table: DeltaTable, log: DeltaLog) -> _Recorded:
    try:
        durable = state_of(table) if is_durable(table) else None
    except Exception as error:
        text = f"the property {PROPERTY} or a commit cannot be read: {error!r}"
        return _Recorded(log.state, log.archived, (text,))
    if durable is None:
        return _Recorded(log.state, log.archived, ())
    state: State = {
        "topicId": durable.topic_id,
        "decode": durable.decode,
        "offsets": {str(index): end for index, end in durable.offsets.items()},
    }
    if durable.removed or "removed" in log.state:
        state["kept"] = {str(index): offset for index, offset in durable.kept.items()}
        state["removed"] = durable.removed
    damage = [
        f"the newest batch in the log says {name} {log.state.get(name)}, and what the table keeps "
        f"says {value}"
        for name, value in state.items()
        if log.state and log.state.get(name) != value
    ]
    spans = extended_spans(log.archived, durable.offsets, durable.start, durable.kept)
    return _Recorded({**log.state, **state}, spans, tuple(damage))


def _action(directory: str, action: Mapping[str, Any]) -> FileAction:
    path = unquote(action["path"])
    if path.startswith("file:"):
        path = urlsplit(path).path
    bounds = {}
    for name in (PARTITION, OFFSET, TIMESTAMP):
        low, high = action.get(f"min.{name}"), action.get(f"max.{name}")
        if isinstance(low, datetime) and isinstance(high, datetime):
            bounds[name] = (_micros(low), _micros(high))
        elif isinstance(low, int) and isinstance(high, int):
            bounds[name] = (low, high)
    nulls = {name: action.get(f"null_count.{name}") for name in (PARTITION, OFFSET, TIMESTAMP)}
    return FileAction(
        path=os.path.join(directory, path),
        size_bytes=action["size_bytes"],
        records=action["num_records"],
        bounds=bounds,
        nulls={name: count for name, count in nulls.items() if count is not None},
        partition=action.get(f"partition.{PARTITION}"),
        date=action.get(f"partition.{layout.DATE}"),
    )


def _micros(time: datetime) -> int:
    return (time.replace(tzinfo=time.tzinfo or UTC) - _EPOCH) // timedelta(microseconds=1)


def _deleted_rows(
    table: DeltaTable, topic: str, features: set[str]
) -> tuple[dict[str, NDArray[np.bool_]], list[Finding]]:
    """By path of a file, the rows that a deletion vector hides."""
    if "deletionVectors" not in features:
        return {}, []
    try:
        rows = pa.table(table.deletion_vectors()).to_pydict()
    except Exception as error:
        note = f"deletion vectors cannot be read: {next(iter(str(error).splitlines()), '')}"
        return {}, [Finding(UNREADABLE, topic, -1, 0, note=note)]
    return {
        unquote(urlsplit(path).path): ~np.array(kept, dtype=bool)
        for path, kept in zip(rows["filepath"], rows["selection_vector"], strict=True)
    }, []


def _differences_to_log(
    topic: str, directory: str, files: Iterable[FileAction], log: DeltaLog, table: DeltaTable
) -> list[Finding]:
    """Compare what readers see, who begin at a checkpoint, with what all commits together say."""
    texts = []
    if log.files is not None:
        sizes = {each.path: each.size_bytes for each in files}
        followed = {os.path.join(directory, path): size for path, size in log.files.items()}
        for path in sorted({*sizes.items()} ^ {*followed.items()}):
            name = os.path.relpath(path[0], directory)
            texts.append(f"a checkpoint and the commits do not agree on {name}")
    query, batch = log.state.get("query"), log.state.get("batch", -1)
    if query and batch >= 0 and table.transaction_version(query) != batch:
        newest = table.transaction_version(query)
        texts.append(f"the newest commit is of batch {batch}, the newest transaction is {newest}")
    return [Finding(DAMAGED_LOG, topic, -1, 0, note=text) for text in dict.fromkeys(texts)]
