"""Reads an Iceberg table of one topic's records, and what is wrong with its metadata.

Readers look at the newest version and at its current snapshot only. Here all versions that the
newest one names are looked at, and the chain of snapshots is followed.
"""

from __future__ import annotations

import json
import os
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.table.snapshots import ancestors_of

from kraftlog.errors import ConfigError
from kraftlog.spark.lake import layout
from kraftlog.spark.lake.iceberg.columns import arrow_columns
from kraftlog.spark.lake.iceberg.files import (
    HINT,
    metadata_path,
    read_hint,
    version_names,
    version_of,
)
from kraftlog.spark.lake.iceberg.reading import changed_names, ids_by_path
from kraftlog.spark.lake.iceberg.state import STATE, recorded_state
from kraftlog.spark.lake.iceberg.table import opened
from kraftlog.spark.lake.state import KEY, PROPERTY
from kraftlog.spark.lake_check.column_ids import ColumnIds
from kraftlog.spark.lake_check.findings import ICEBERG_METADATA, Finding
from kraftlog.spark.lake_check.iceberg_manifests import (
    Files,
    UnreadableSnapshotError,
    read_files,
)
from kraftlog.spark.lake_check.lake_files import OFFSET, PARTITION
from kraftlog.spark.lake_check.state_chain import State, StateChain
from kraftlog.spark.lake_check.tables import (
    CONTENT,
    DamagedTableError,
    LakeTable,
    archived_until,
    compared_columns,
    extended_spans,
    is_without_position,
    with_spans,
    wrong_columns,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_NAME_MAPPING = "schema.name-mapping.default"
#: Later versions of the format have other ways to delete rows and to fill columns.
_MAX_FORMAT = 2


def open_iceberg_table(
    directory: str, topic: str, committed: Mapping[int, int] = MappingProxyType({})
) -> LakeTable:
    """Read a table's metadata; raise DamagedTableError if it cannot be read.

    `committed` has the offsets up to which the archive says that partitions are archived.
    """
    damage = [*_damaged_versions(directory)]
    try:
        table = opened(directory)
    except ConfigError:
        raise
    except Exception as error:
        raise _unreadable(topic, damage, "the table cannot be opened", error) from error
    try:
        lake_table = _described(table, directory, topic, damage)
    except (ConfigError, DamagedTableError):
        raise
    except Exception as error:  # PyIceberg trusts much of what it reads
        raise _unreadable(topic, damage, "the metadata cannot be read", error) from error
    return archived_until(with_spans(lake_table), committed if lake_table.is_archive else {})


def _unreadable(
    topic: str, damage: Iterable[str], what: str, error: Exception
) -> DamagedTableError:
    return DamagedTableError(_findings(topic, [*damage, f"{what}: {_text(error)}"]))


def _described(table: Table, directory: str, topic: str, damage: list[str]) -> LakeTable:
    """The table as its metadata describes it; what is wrong with that is added to `damage`."""
    metadata = table.metadata
    damage += _damaged_log(metadata)
    missing = _missing_files(metadata)
    if missing:  # unless they were cleaned up meanwhile
        still_named = _missing_files(opened(directory).metadata)
        damage += [text for text in missing if text in still_named]
    recorded = _Recorded(metadata)
    damage += recorded.damage
    schema = arrow_columns(metadata.schema())
    findings = wrong_columns(topic, schema, (), recorded.state.get("decode", ""))
    ids, wrong_ids = _column_ids(metadata)
    if is_without_position(schema, ()) or (wrong_ids and not recorded.is_archive):
        if recorded.is_archive:
            raise DamagedTableError([*_findings(topic, damage), *findings])
        reason = "; ".join(wrong_ids) or "no columns partition and offset: not a topic's records"
        raise ConfigError(f"{directory}: {reason}")
    damage += wrong_ids
    if recorded.is_archive and not ids.is_mapped:
        damage.append(f"the property {_NAME_MAPPING} does not have the table's columns")
    snapshot = metadata.current_snapshot()
    try:
        files = Files((), (), {}) if snapshot is None else read_files(metadata, directory, snapshot)
    except UnreadableSnapshotError as error:
        what = "the current snapshot's list of manifests cannot be read"
        raise _unreadable(topic, damage, what, error) from error
    damage += files.damage
    if recorded.is_archive:
        damage += _files_outside(directory, files)
    compared, not_compared = compared_columns(schema, ())
    return LakeTable(
        topic=topic,
        directory=directory,
        table_id=str(metadata.table_uuid),
        version=version_of(table.metadata_location),
        compared=compared,
        not_compared=not_compared,
        files=files.actions,
        spans=(),
        is_partitioned=False,
        deleted=files.deleted,
        is_archive=recorded.is_archive,
        archived=recorded.archived,
        state=recorded.state,
        topic_id=recorded.state.get("topicId", ""),
        findings=(*_findings(topic, damage), *findings),
        damaged_log=ICEBERG_METADATA,
        log_name="the manifest",
        column_ids=ids,
    )


def _findings(topic: str, damage: Iterable[str]) -> list[Finding]:
    return [Finding(ICEBERG_METADATA, topic, -1, 0, note=text) for text in dict.fromkeys(damage)]


def _damaged_versions(directory: str) -> Iterator[str]:
    """What is wrong with the files of the versions, and with the one that names the newest."""
    hints = []
    names: dict[int, str] = {}
    try:
        hints.append(read_hint(directory))
        names = version_names(directory)
        hints.append(read_hint(directory))  # an archive may have committed meanwhile
    except (OSError, ValueError) as error:
        names = version_names(directory)
        yield f"{HINT} cannot be read: {error}"
    newest = max(names, default=0)
    if not names:
        yield "there is no version"
    for before, after in pairwise(names):
        if after - before > 1:
            missing = f"{before + 1}" if after - before == 2 else f"{before + 1} to {after - 1}"
            yield f"version {missing} is missing"
    if hints and (hints[0] > newest or hints[0] < min(names, default=0)):
        yield f"{HINT} names version {hints[0]}, which does not exist"
    elif hints and hints[-1] < newest - 1:  # a killed run may not have written the last one
        yield f"{HINT} names version {hints[-1]}, and the newest is {newest}"
    for version, name in names.items():
        if version == newest or name.endswith(".gz.metadata.json"):
            continue
        try:
            with open(metadata_path(directory, name), encoding="utf-8") as file:
                json.load(file)
        except FileNotFoundError:  # cleaned up meanwhile
            continue
        except (OSError, ValueError, RecursionError) as error:
            yield f"version {version} cannot be read: {error}"


def _damaged_log(metadata: TableMetadata) -> Iterator[str]:
    """What the newest version says about earlier ones, and about snapshots, that is not so."""
    if metadata.format_version > _MAX_FORMAT:
        yield f"the table has format version {metadata.format_version}, which is not read here"
    current = metadata.current_snapshot()
    newest = metadata.snapshot_log[-1].snapshot_id if metadata.snapshot_log else None
    if newest != (None if current is None else current.snapshot_id):
        yield "the newest entry of the snapshot log is not the current snapshot"
    main = metadata.refs.get("main")
    if (None if main is None else main.snapshot_id) != (
        None if current is None else current.snapshot_id
    ):
        yield "branch main is not at the current snapshot"
    if current is not None and (current.sequence_number or 0) > metadata.last_sequence_number:
        yield "the current snapshot has a sequence number of the future"


def _missing_files(metadata: TableMetadata) -> list[str]:
    """Earlier versions, and lists of manifests, that should be there."""
    texts = {
        entry.metadata_file: f"{os.path.basename(entry.metadata_file)} is missing"
        for entry in metadata.metadata_log
    }
    for snapshot in metadata.snapshots:
        number = snapshot.snapshot_id
        texts[snapshot.manifest_list] = f"the list of manifests of snapshot {number} is missing"
    return [
        text for path, text in texts.items() if not os.path.exists(path.removeprefix("file://"))
    ]


class _Recorded:
    """What the archive says of the table: in summaries of snapshots, and in properties."""

    def __init__(self, metadata: TableMetadata) -> None:
        self.damage: list[str] = []
        current = metadata.current_snapshot()
        chain = [] if current is None else list(ancestors_of(current, metadata))
        follower = StateChain(self.damage)
        for snapshot in reversed(chain):
            self._follow(follower, snapshot)
        for later, earlier in pairwise(chain):
            if (later.sequence_number or 0) <= (earlier.sequence_number or 0):
                self.damage.append(f"snapshot {later.snapshot_id} has a number of the past")
        fixed = self._property(metadata, PROPERTY)
        kept = self._property(metadata, STATE)
        comment = metadata.properties.get("comment", "")
        self.is_archive = bool(
            fixed or kept or follower.newest or comment.endswith(layout.ARCHIVED_BY)
        )
        self.state: State = {}
        self.archived: dict[int, tuple[int, int]] = {}
        if not self.is_archive:
            return
        try:
            self._take(fixed, kept, follower)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            self.damage.append(f"the archive's properties cannot be read: {error!r}")
            self.state = follower.newest

    def _follow(self, follower: StateChain, snapshot: Snapshot) -> None:
        try:
            state = recorded_state(snapshot)
            if state is not None:
                follower.follow(state, f"snapshot {snapshot.snapshot_id}")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            self.damage.append(
                f"{KEY} in the summary of snapshot {snapshot.snapshot_id} cannot be read: {error!r}"
            )

    def _property(self, metadata: TableMetadata, name: str) -> dict[str, Any]:
        """A property's value; empty if it is missing or broken."""
        try:
            value = json.loads(metadata.properties.get(name, "null"))
        except ValueError as error:
            self.damage.append(f"the property {name} cannot be read: {error}")
            return {}
        return value if isinstance(value, dict) else {}

    def _take(self, fixed: dict[str, Any], kept: dict[str, Any], follower: StateChain) -> None:
        for name, value in ((PROPERTY, fixed), (STATE, kept)):
            if not value:
                self.damage.append(f"the table has no property {name}")
        durable: State = kept.get("state", {})
        newest = follower.newest
        self.state = newest or durable
        self.archived = follower.archived()
        for name in ("topicId", "decode"):
            if fixed and self.state and fixed[name] != self.state.get(name):
                self.damage.append(
                    f"the newest batch says {name} {self.state.get(name)}, and the property "
                    f"{PROPERTY} says {fixed[name]}"
                )
        for name in durable if newest else ():
            if durable[name] != newest.get(name):
                self.damage.append(
                    f"the newest snapshot says {name} {newest.get(name)}, and the property {STATE} "
                    f"says {durable[name]}"
                )
        starts = {int(index): start for index, start in fixed.get("start", {}).items()}
        ends = {int(index): end for index, end in self.state.get("offsets", {}).items()}
        self.archived = extended_spans(self.archived, ends, starts)


def _column_ids(metadata: TableMetadata) -> tuple[ColumnIds, list[str]]:
    """The ids of the columns that are compared, and sentences about changed names of these."""
    names = {PARTITION, OFFSET, *CONTENT}

    def is_compared(path: str) -> bool:
        return path.partition(".")[0] in names

    ids = {
        path: number for path, number in ids_by_path(metadata.schema()).items() if is_compared(path)
    }
    wrong = [
        f"column {path} had another name, or another column had its name"
        for path in changed_names(metadata)
        if is_compared(path)
    ]
    try:
        named = dict(_named(parse_mapping_from_json(metadata.properties[_NAME_MAPPING]).root))
    except Exception:  # whatever PyIceberg makes of a broken mapping, it maps nothing
        named = {}
    is_mapped = all(named.get(path) == number for path, number in ids.items())
    return ColumnIds(ids, is_mapped), wrong


def _named(fields: Iterable[Any], prefix: str = "") -> Iterator[tuple[str, int | None]]:
    """By dotted path, the ids that a mapping of names gives to columns without ids."""
    for field in fields:
        for name in field.names:
            yield f"{prefix}{name}", field.field_id
            yield from _named(field.fields, f"{prefix}{name}.")


def _files_outside(directory: str, files: Files) -> Iterator[str]:
    inside = os.path.join(os.path.realpath(directory), "")
    for action in files.actions:
        if not action.path.startswith(inside):
            yield f"a manifest has {action.path}, which is outside of the table's directory"


def _text(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
