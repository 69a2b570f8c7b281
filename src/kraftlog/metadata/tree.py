"""The metadata image as a tree of directories and files, for `kraftlog metadata shell`."""

from __future__ import annotations

from kraftlog.metadata.tables import TABLES_OF_IMAGE, rows_of
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.metadata.history import MetadataState

#: For each table its directory, and the columns whose values name the directories below it. The
#: other columns are files; a column "key" names the file whose content is the column "value".
_PATHS = {
    "brokers": ("brokers", ("broker",)),
    "configs": ("configs", ("type", "name")),
    "voters": ("quorum/voters", ("voter",)),
    "quotas": ("quotas", ("entity",)),
    "scram": ("scram", ("user", "mechanism")),
    "tokens": ("delegationToken/tokens", ("token",)),
}


def tree_of(state: MetadataState) -> dict[str, Any]:
    """Directories are dicts, files are plain values."""
    image = state.image
    tree: dict[str, Any] = {"topics": {}, "topicIds": {}, "brokers": {}, "controllers": {}}
    for row in rows_of(state, "topics"):
        tree["topics"][escaped(row["topic"])] = {"id": row["id"]}
        tree["topicIds"][row["id"]] = row["topic"]
    for row in rows_of(state, "partitions"):
        files = {key: row[key] for key in row if key not in {"topic", "partition"}}
        tree["topics"][escaped(row["topic"])][str(row["partition"])] = files
    for controller_id, controller in sorted(image.controllers.items()):
        tree["controllers"][str(controller_id)] = {
            "incarnation": uuid_text(controller.incarnation_id),
            "endpoints": [
                f"{each.name}://{each.host}:{each.port}" for each in controller.end_points
            ],
        }
    tree["configs"] = {}
    tree["features"] = dict(sorted(image.features.items()))
    tree["quorum"] = {
        "offset": state.offset,
        "epoch": state.epoch,
        "timestamp": state.time_ms,
        "voters": {},
    }
    tree["producerIds"] = {"next": image.next_producer_id}
    for table, (path, keys) in _PATHS.items():
        for row in rows_of(state, table):
            directory = tree
            for name in (*path.split("/"), *[escaped(str(row[key])) for key in keys]):
                directory = directory.setdefault(name, {})
            if "key" in row:
                directory[escaped(row["key"])] = row["value"]
            else:
                directory.update({key: value for key, value in row.items() if key not in keys})
    acls = rows_of(state, "acls")
    if acls:
        columns = TABLES_OF_IMAGE["acls"].columns
        tree["acls"] = {
            str(number): {column: row[column] for column in columns}
            for number, row in enumerate(acls)
        }
    return tree


def escaped(name: str) -> str:
    """A name as one part of a path: `%` and `/` are percent-encoded; `%00` if it is empty."""
    return name.replace("%", "%25").replace("/", "%2F") or "%00"
