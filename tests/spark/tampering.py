"""An archive that is made once, and the ways in which its copies are damaged or maintained.

Everything is written without Spark: the archive by the tasks' own code, damage by hand.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from kraftlog import Client
from kraftlog.spark.lake import layout
from kraftlog.spark.lake.archives import DELTA, create_archive
from kraftlog.spark.lake.decode import Decoding
from kraftlog.spark.lake.ranges import RangeArchiver
from kraftlog.spark.lake.state import ArchiveState
from kraftlog.spark.pipelines.verify import run as verify
from kraftlog.spark.ranges import OffsetRange
from kraftlog.types import uuid_text
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    import pytest

TOPIC = "tampered"
PARTITIONS, COUNT = 2, 100
#: Offsets of a batch of each partition: a file for each.
BATCH = 50
QUERY = "41b0a3f6-0000-0000-0000-000000000000"

Action = dict[str, "Any"]


def assert_noticed(table: str, said: str, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Verify a damaged table: the damage is reported, and nothing crashes."""
    code = verify([table, "-b", address])
    output = capsys.readouterr()
    print(output.out, output.err)
    assert code == 3, output
    assert said in output.out
    assert "not equal: " in output.out
    assert "Traceback" not in output.out + output.err
    assert output.err == ""


def assert_equal(table: str, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Verify a table that another program has maintained."""
    code = verify([table, "-b", address])
    output = capsys.readouterr()
    assert code == 0, output
    assert f"equal: {PARTITIONS * COUNT} records compared\n" in output.out


def make_lake(
    address: str,
    lake: Path,
    topic: str = TOPIC,
    time_ms: Callable[[int], int | None] = lambda _: None,
    *,
    table_format: str = DELTA,
) -> None:
    """Produce the topic and archive it in two batches, with a file for each partition of each.

    `time_ms` gives the time of the record at an offset; None is now.
    """
    with Client(address, timeout_s=LIMIT_S) as client:
        client.create_topic(topic, partitions=PARTITIONS)
        with client.producer() as producer:
            for number in range(PARTITIONS * COUNT):
                producer.send(
                    topic,
                    None if number % 11 == 0 else f"value {number}",
                    key=None if number % 5 == 0 else f"key {number}",
                    partition=number % PARTITIONS,
                    headers=[("name", b"1"), ("none", None)] if number % 4 == 0 else (),
                    timestamp_ms=time_ms(number // PARTITIONS),
                )
        topic_id = uuid_text(client.cluster.topic(topic).id)
        ends = dict.fromkeys(range(PARTITIONS), 0)
        state = ArchiveState(topic, topic_id, "raw", ends, dict(ends), begun_at="earliest")
        table = create_archive(table_format, str(lake), state, layout.RAW, by_date=False)
        for batch, start in enumerate(range(0, COUNT, BATCH)):
            ranges = dict.fromkeys(range(PARTITIONS), (start, start + BATCH))
            files = [
                file
                for index, (low, high) in ranges.items()
                for file in RangeArchiver(
                    client.cluster,
                    OffsetRange(topic, index, low, high),
                    str(lake),
                    Decoding("raw").__dict__,
                    isolation_level=1,
                    may_lose=False,
                )
                .run()
                .files
            ]
            ends = {index: high for index, (_, high) in ranges.items()}
            rows = PARTITIONS * (start + BATCH)
            state = ArchiveState(
                *(topic, topic_id, "raw", ends, dict.fromkeys(ranges, 0), ranges),
                query=QUERY,
                batch=batch,
                rows=rows,
                begun_at="earliest",
            )
            table.commit(state, files)
            _checkpoint_of_query(str(lake), topic, batch, ends)


def _checkpoint_of_query(lake: str, topic: str, batch: int, ends: dict[int, int]) -> None:
    """What Spark's checkpoint has after a batch."""
    path = layout.checkpoint_path(lake, topic)
    offsets = json.dumps({topic: {str(index): end for index, end in ends.items()}})
    for folder, text in (("offsets", f"v1\n{{}}\n{offsets}"), ("commits", "v1\n{}")):
        os.makedirs(os.path.join(path, folder), exist_ok=True)
        with open(os.path.join(path, folder, str(batch)), "w", encoding="utf-8") as file:
            file.write(text)


class Table:
    """A copy of the archive's table, to be damaged."""

    def __init__(self, original: Path, lake: Path, topic: str = TOPIC) -> None:
        shutil.copytree(original, lake)
        self.topic = topic
        self.lake = str(lake)
        self.path = str(lake / topic)
        self.log = os.path.join(self.path, "_delta_log")

    @property
    def files(self) -> list[str]:
        """The files by partition and first offset."""
        actions = pa.table(DeltaTable(self.path).get_add_actions(flatten=True)).to_pylist()
        in_order = sorted(actions, key=lambda each: (each["min.partition"], each["min.offset"]))
        return [os.path.join(self.path, unquote(each["path"])) for each in in_order]

    def rows(self, file: int = 0) -> pa.Table:
        return pq.read_table(self.files[file], partitioning=None)

    def rewrite(
        self,
        change: Callable[[pa.Table], pa.Table],
        file: int = 0,
        *,
        described: str = "size",
        **settings: Any,
    ) -> None:
        """Change the rows of a file, and what Delta's log says of it: size, all, or nothing."""
        path = self.files[file]
        pq.write_table(change(pq.read_table(path, partitioning=None)), path, **settings)
        if described:
            self.describe(path, with_statistics=described == "all")

    def describe(self, path: str, *, with_statistics: bool = False) -> None:
        """Let Delta's log say what is so: the size of a file, and its statistics."""
        name = os.path.basename(path)
        for version in self.versions():
            actions = self.commit(version)
            for add in [each["add"] for each in actions if "add" in each]:
                if add["path"] == name:
                    add["size"] = os.path.getsize(path)
                    if with_statistics:
                        add["stats"] = json.dumps(_statistics(path))
            self.write_commit(version, actions)

    def versions(self) -> list[int]:
        names = sorted(os.listdir(self.log))
        return [int(name[:20]) for name in names if name.endswith(".json") and name[0].isdigit()]

    def commit_path(self, version: int) -> str:
        return os.path.join(self.log, f"{version:020}.json")

    def commit(self, version: int) -> list[Action]:
        with open(self.commit_path(version), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def write_commit(self, version: int, actions: list[Action]) -> None:
        with open(self.commit_path(version), "w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(each)}\n" for each in actions)

    def edit(self, version: int, kind: str, change: Callable[[Action], object]) -> None:
        """Change the first action of this kind in a commit."""
        actions = self.commit(version)
        change(next(each[kind] for each in actions if kind in each))
        self.write_commit(version, actions)

    def drop(self, version: int, kind: str) -> None:
        """Remove the first action of this kind from a commit."""
        actions = self.commit(version)
        actions.remove(next(each for each in actions if kind in each))
        self.write_commit(version, actions)

    def checkpoint(self) -> str:
        DeltaTable(self.path).create_checkpoint()
        name = next(each for each in os.listdir(self.log) if each.endswith(".checkpoint.parquet"))
        return os.path.join(self.log, name)

    def hide_row(self, row: int, file: int = 0) -> None:
        """Hide a row of a file by a deletion vector, in a commit of its own."""
        name = os.path.basename(self.files[file])
        adds = [each["add"] for v in self.versions() for each in self.commit(v) if "add" in each]
        add = next(each for each in adds if each["path"] == name)
        inline = _deletion_vector([row])
        vector = {"storageType": "i", "pathOrInlineDv": _z85(inline), "sizeInBytes": len(inline)}
        features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
        version = self.versions()[-1] + 1
        remove = {"path": name, "dataChange": True, "deletionTimestamp": 1}
        hidden = {**add, "deletionVector": {**vector, "cardinality": 1}}
        self.write_commit(
            version,
            [
                {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
                {"remove": remove},
                {"add": hidden},
            ],
        )


def _statistics(path: str) -> Action:
    rows = pq.read_table(path, partitioning=None)
    found: Action = {"numRecords": len(rows), "minValues": {}, "maxValues": {}, "nullCount": {}}
    for name in ("partition", "offset"):
        column = rows.column(name).drop_null().to_pylist()
        found["minValues"][name], found["maxValues"][name] = min(column), max(column)
        found["nullCount"][name] = rows.column(name).null_count
    return found


def _deletion_vector(rows: list[int]) -> bytes:
    """Delta's format: a roaring bitmap with one container of row numbers below 65,536."""
    container = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16)
    container += struct.pack(f"<{len(rows)}H", *rows)
    data = struct.pack("<IQI", 1681511377, 1, 0) + container
    return data + bytes(-len(data) % 4)


def _z85(data: bytes) -> str:
    letters = (
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    )
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(letters[word // 85**power % 85] for word in words for power in range(4, -1, -1))


# Changes of a file's rows


def changed(row: int, **values: Any) -> Callable[[pa.Table], pa.Table]:
    """Give a row other values."""

    def change(rows: pa.Table) -> pa.Table:
        for name, value in values.items():
            column = rows.column(name).to_pylist()
            column[row] = value
            index = rows.column_names.index(name)
            rows = rows.set_column(index, rows.field(name), pa.array(column, rows.field(name).type))
        return rows

    return change


def added(row: int, **values: Any) -> Callable[[pa.Table], pa.Table]:
    """Append a copy of a row, with other values."""

    def change(rows: pa.Table) -> pa.Table:
        return pa.concat_tables([rows, changed(0, **values)(rows.slice(row, 1))])

    return change


def without(first: int, count: int = 1) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: pa.concat_tables([rows.slice(0, first), rows.slice(first + count)])


def swapped(column: str, one: int, other: int) -> Callable[[pa.Table], pa.Table]:
    """Exchange the values of two rows."""

    def change(rows: pa.Table) -> pa.Table:
        values = rows.column(column).to_pylist()
        return changed(other, **{column: values[one]})(
            changed(one, **{column: values[other]})(rows)
        )

    return change


def cast(column: str, kind: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    def change(rows: pa.Table) -> pa.Table:
        index = rows.column_names.index(column)
        return rows.set_column(index, column, rows.column(column).cast(kind))

    return change


def shuffled(rows: pa.Table) -> pa.Table:
    return rows.take(np.random.default_rng(1).permutation(len(rows)))


# Changes of bytes


def flip(path: str, position: int) -> None:
    """Flip a bit; a negative position counts from the end."""
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        data[position] ^= 4
        file.seek(0)
        file.write(data)


def truncate(path: str, left: float) -> None:
    os.truncate(path, int(os.path.getsize(path) * left))


def data_pages(path: str) -> Iterator[tuple[str, int]]:
    """The columns of a file, with a position at the end of each one's data."""
    with pq.ParquetFile(path) as file:
        group = file.metadata.row_group(0)
        for number in range(group.num_columns):
            column = group.column(number)
            start = column.dictionary_page_offset or column.data_page_offset
            yield column.path_in_schema, start + column.total_compressed_size - 3
