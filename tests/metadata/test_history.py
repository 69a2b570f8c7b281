"""The state read from a metadata log equals a node's image, from any snapshot to any offset."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.admin import ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourceType

from kraftlog.errors import ConfigError, CorruptLogError
from kraftlog.logstate.quorum_records import snapshot_beginning, snapshot_end, voters_record
from kraftlog.logstate.voters import ReplicaKey, Voter, VoterSet
from kraftlog.metadata.history import MetadataState, Moment, state_at
from kraftlog.metadata.image import Image
from kraftlog.metadata.tables import TABLES_OF_IMAGE, differences, rows_of
from kraftlog.metadata.versions import record_version
from kraftlog.node.quorum.batches import records_batch
from kraftlog.records.builder import BatchBuilder
from kraftlog.records.control import build_control_batch
from kraftlog.types import ControlType, OffsetAndEpoch
from kraftlog.wire.messages import metadata_records as records
from kraftlog.wire.record_frames import encode_metadata
from tests.controller.scenario import random_cluster
from tests.metadata import samples
from tests.metadata.samples import uuid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kraftlog.wire.schema import Message

EPOCH = 3


def batch(records: Sequence[Message], base_offset: int, time_ms: int) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=EPOCH)
    for record in records:
        builder.append(time_ms, None, encode_metadata(record, record_version(record)))
    return bytes(builder.build())


def snapshot_of(image: Image, end: int, time_ms: int, voters: VoterSet) -> bytes:
    """A snapshot as a node writes it."""
    first, offset = snapshot_beginning(voters, EPOCH, time_ms, contained_ms=time_ms)
    values = [encode_metadata(each, record_version(each)) for each in image.records()]
    middle = records_batch(values, time_ms) if values else bytearray()
    if middle:
        middle[:8] = offset.to_bytes(8, "big")
    return first + bytes(middle) + snapshot_end(offset + len(values), EPOCH, time_ms)


class LogInMemory:
    """A metadata log with snapshots; `start` is 0, or the end of the oldest snapshot."""

    def __init__(self, log: Sequence[Message], sizes: Iterable[int] = ()) -> None:
        self.batches: list[tuple[int, bytes]] = []
        self.start = 0
        #: Snapshots by their end offset.
        self.snapshot_data: dict[int, bytes] = {}
        end = 0
        for size in sizes:
            if end < len(log):
                self._append(log[end : end + size], end)
                end += size
        if end < len(log):
            self._append(log[end:], end)

    def _append(self, records: Sequence[Message], base_offset: int) -> None:
        self.batches.append((base_offset, batch(records, base_offset, time_of(base_offset))))

    def snapshots(self) -> list[OffsetAndEpoch]:
        return [OffsetAndEpoch(end, EPOCH) for end in sorted(self.snapshot_data, reverse=True)]

    def read_snapshot(self, snapshot: OffsetAndEpoch) -> bytes:
        return self.snapshot_data[snapshot.offset]

    def read(self, offset: int) -> Iterator[bytes]:
        assert offset >= self.start
        before = [base for base, _ in self.batches if base <= offset]
        for base, data in self.batches:
            if base >= (before[-1] if before else 0):
                yield data


def time_of(offset: int) -> int:
    return 1_000_000 + 10 * offset


def image_at(log: Sequence[Message], offset: int) -> Image:
    image = Image()
    for record in log[: offset + 1]:
        image.replay(record)
    return image


@given(seed=st.integers(0, 10_000), data=st.data())
def test_the_state_read_at_any_offset_equals_the_image(seed: int, data: st.DataObject) -> None:
    """A snapshot at O and the records from O to N give the same state as those from 0 to N."""
    log = random_cluster(seed, steps=25).log
    sizes = data.draw(st.lists(st.integers(1, 9), max_size=40))
    source = LogInMemory(log, sizes)
    for end in data.draw(st.sets(st.integers(1, len(log)), max_size=3)):
        image = image_at(log, end - 1)
        if not image.transaction:  # nodes take no snapshot within a transaction
            source.snapshot_data[end] = snapshot_of(image, end, time_of(end - 1), VoterSet())
    is_truncated: bool = data.draw(st.booleans())
    if source.snapshot_data and is_truncated:
        source.start = min(source.snapshot_data)
    first_offset = max(source.start - 1, 0)
    offset = max(data.draw(st.integers(0, len(log) - 1)), first_offset)

    state = state_at(source, Moment(offset=offset))

    assert state.image == image_at(log, offset)
    assert (state.offset, state.epoch) == (offset, EPOCH)
    if source.start > 1:
        with pytest.raises(ConfigError, match=f"before offset {source.start}"):
            state_at(source, Moment(offset=data.draw(st.integers(0, source.start - 2))))
    earlier = state_at(source, Moment(offset=first_offset))
    names = list(TABLES_OF_IMAGE)
    assert apply_differences(earlier, state) == {name: rows_by_key(state, name) for name in names}


def rows_by_key(state: MetadataState, name: str) -> dict[tuple[object, ...], dict[str, object]]:
    table = TABLES_OF_IMAGE[name]
    return {
        tuple(row[key] for key in table.columns[: table.keys]): row for row in rows_of(state, name)
    }


def apply_differences(
    before: MetadataState, after: MetadataState
) -> dict[str, dict[tuple[object, ...], dict[str, object]]]:
    """The tables of the earlier state, with all differences to the later one applied."""
    tables = {name: rows_by_key(before, name) for name in TABLES_OF_IMAGE}
    for change in differences(before, after, list(TABLES_OF_IMAGE)):
        table = TABLES_OF_IMAGE[change.table]
        rows = tables[change.table]
        assert (change.what == "added") == (change.key not in rows)
        if change.what == "removed":
            del rows[change.key]
            continue
        keys = dict(zip(table.columns[: table.keys], change.key, strict=True))
        row = rows.setdefault(change.key, dict.fromkeys(table.columns) | keys)
        row.update({column: new for column, _, new in change.fields})
    return tables


def test_a_moment_by_time_includes_records_appended_until_then() -> None:
    log = [samples.topic(number, f"t{number}") for number in range(1, 7)]
    source = LogInMemory(log, [1] * 6)
    for end in (2, 4):
        source.snapshot_data[end] = snapshot_of(
            image_at(log, end - 1), end, time_of(end - 1), VoterSet()
        )

    def topics_at(time_ms: int) -> int:
        return len(state_at(source, Moment(time_ms=time_ms)).image.topics)

    assert [topics_at(time_of(offset)) for offset in range(6)] == [1, 2, 3, 4, 5, 6]
    assert topics_at(time_of(3) - 1) == 3
    assert topics_at(time_of(0) - 1) == 0
    assert topics_at(time_of(9)) == 6


def test_voters_are_those_of_the_newest_record() -> None:
    def voters(*ids: int) -> VoterSet:
        return VoterSet(tuple(Voter(ReplicaKey(number, uuid(number))) for number in ids))

    source = LogInMemory([])
    source.snapshot_data[2] = snapshot_of(Image(), 2, 0, voters(1))
    for offset, ids in ((2, (1, 2)), (3, (1, 2, 3))):
        record = (ControlType.KRAFT_VOTERS, voters_record(voters(*ids)))
        data = build_control_batch([record], base_offset=offset, leader_epoch=EPOCH, timestamp_ms=0)
        source.batches.append((offset, data))
    source.start = 2
    voter_rows = [
        rows_of(state_at(source, Moment(offset=offset)), "voters") for offset in (1, 2, 3)
    ]
    assert [[row["voter"] for row in rows] for rows in voter_rows] == [[1], [1, 2], [1, 2, 3]]
    first, last = (state_at(source, Moment(offset=offset)) for offset in (1, 3))
    changes = list(differences(first, last, ["voters"]))
    assert [(each.what, each.key) for each in changes] == [("added", (2,)), ("added", (3,))]


def test_the_levels_of_formatting_count_once_the_log_has_them() -> None:
    """KIP-1170: the snapshot at offset 0 has voters, and records that are not appended yet."""
    levels = Image()
    levels.replay(samples.feature("share.version", 2))
    source = LogInMemory([samples.feature("metadata.version", 33)])
    voters = VoterSet((Voter(ReplicaKey(1, uuid(1))),))
    source.snapshot_data[0] = snapshot_of(levels, 0, 0, voters)
    state = state_at(source, Moment())
    assert state.image.features == {"metadata.version": 33}
    assert state.voters is not None
    assert state.voters.ids == (1,)


def test_the_log_continues_no_snapshot_before_its_start() -> None:
    """A directory may still have the bootstrap checkpoint when its first segments are deleted."""
    log = [samples.topic(number, f"t{number}") for number in range(1, 5)]
    source = LogInMemory(log, [1] * 4)
    for end in (0, 2):
        image = image_at(log, end - 1)
        source.snapshot_data[end] = snapshot_of(image, end, time_of(end - 1), VoterSet())
    source.start = 2
    del source.batches[:2]
    assert len(state_at(source, Moment(offset=3)).image.topics) == 4
    with pytest.raises(ConfigError, match="before offset 2: earlier states"):
        state_at(source, Moment(offset=0))


def test_an_offset_after_the_end_is_refused() -> None:
    source = LogInMemory([samples.topic(1, "t")])
    with pytest.raises(ConfigError, match="offset 1 is not in the metadata log; its last one is 0"):
        state_at(source, Moment(offset=1))


def test_a_hole_in_the_log_is_refused() -> None:
    source = LogInMemory([samples.topic(number, f"t{number}") for number in (1, 2, 3)], [1, 1, 1])
    del source.batches[1]
    with pytest.raises(CorruptLogError, match="no offset 1; the next one is 2"):
        state_at(source, Moment())


def test_passwords_are_hidden() -> None:
    log = [
        samples.config("1", "ssl.keystore.password", "secret", kind=4),
        samples.config("1", "log.cleaner.threads", "2", kind=4),
    ]
    rows = rows_of(state_at(LogInMemory(log), Moment()), "configs")
    assert [(row["key"], row["value"]) for row in rows] == [
        ("log.cleaner.threads", "2"),
        ("ssl.keystore.password", "(hidden)"),
    ]


def test_acls_have_the_names_that_kafka_acls_prints() -> None:
    """The enumerations of kafka-python have the same names."""
    state = MetadataState()
    acls = [
        records.AccessControlEntryRecord(
            id=uuid(number),
            resource_type=resource.value,
            resource_name="orders",
            pattern_type=pattern.value,
            principal="User:alice",
            host="*",
            operation=operation.value,
            permission_type=permission.value,
        )
        for number, (resource, pattern, operation, permission) in enumerate(
            product(
                list(ResourceType)[2:],
                list(ACLResourcePatternType)[3:],
                list(ACLOperation)[2:],
                list(ACLPermissionType)[2:],
            ),
            start=1,
        )
    ]
    for record in acls:
        state.image.replay(record)
    rows = rows_of(state, "acls")
    assert rows == sorted(rows, key=lambda row: tuple(row.values()))
    assert {
        (row["resource"], row["pattern"], row["operation"], row["permission"]) for row in rows
    } == {
        (
            ResourceType(each.resource_type).name,
            ACLResourcePatternType(each.pattern_type).name,
            ACLOperation(each.operation).name,
            ACLPermissionType(each.permission_type).name,
        )
        for each in acls
    }
    assert {(row["name"], row["principal"], row["host"]) for row in rows} == {
        ("orders", "User:alice", "*")
    }
