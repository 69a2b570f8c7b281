"""The changes of each record add up to the tables as of any offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kraftlog.logstate.quorum_records import voters_record
from kraftlog.logstate.voters import ReplicaKey, Voter, VoterSet
from kraftlog.metadata.history import Moment, state_at
from kraftlog.metadata.row_changes import (
    SNAPSHOT,
    TrackedState,
    oldest_state,
    record_changes,
    snapshot_changes,
)
from kraftlog.metadata.tables import TABLES_OF_IMAGE
from kraftlog.metadata.tree import tree_of
from kraftlog.records.control import build_control_batch
from kraftlog.types import ControlType
from kraftlog.wire.codec import encode
from kraftlog.wire.messages import metadata_records as records
from kraftlog.wire.messages.control_records import LeaderChangeMessage
from tests.controller.scenario import random_cluster
from tests.metadata import samples
from tests.metadata.samples import uuid
from tests.metadata.test_history import (
    EPOCH,
    LogInMemory,
    image_at,
    rows_by_key,
    snapshot_of,
    time_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraftlog.metadata.row_changes import RowChange
    from kraftlog.wire.schema import Message

    Rows = dict[tuple[str, tuple[object, ...]], dict[str, object]]


def apply(rows: Rows, changes: Iterable[RowChange]) -> None:
    for change in changes:
        key = change.table, change.key
        assert rows.get(key) == change.before
        assert change.before != change.after
        if change.after is None:
            del rows[key]
        else:
            rows[key] = change.after


def rows_at(log: LogInMemory, offset: int) -> Rows:
    state = state_at(log, Moment(offset=offset))
    return {
        (name, key): row
        for name in TABLES_OF_IMAGE
        for key, row in rows_by_key(state, name).items()
    }


def changes_of(log: LogInMemory, until: Moment | None = None) -> list[RowChange]:
    state = TrackedState(oldest_state(log))
    return [
        *snapshot_changes(state, {}),
        *(each for some in record_changes(log, state, until or Moment()) for each in some),
    ]


@given(seed=st.integers(0, 10_000), data=st.data())
def test_changes_add_up_to_the_tables_at_any_offset(seed: int, data: st.DataObject) -> None:
    """From offset 0, or from a snapshot on; read at once, or continued after any offset."""
    log = random_cluster(seed, steps=25).log
    source = LogInMemory(log, data.draw(st.lists(st.integers(1, 9), max_size=40)))
    begin: int = data.draw(st.integers(0, len(log) - 1))
    image = image_at(log, begin - 1)
    if begin and not image.transaction:
        source.snapshot_data[begin] = snapshot_of(image, begin, time_of(begin - 1), VoterSet())
        source.start = begin
    split: int = data.draw(st.integers(source.start, len(log) - 1))
    all_changes = changes_of(source)
    continued = TrackedState(state_at(source, Moment(offset=split)))
    later = [each for some in record_changes(source, continued, Moment()) for each in some]
    assert later == [each for each in all_changes if each.offset > split]
    assert [*changes_of(source, Moment(offset=split)), *later] == all_changes
    rows: Rows = {}
    for offset in range(source.start - 1, len(log)):
        apply(rows, [each for each in all_changes if each.offset == offset])
        if offset >= source.start and (offset % 3 == 0 or offset in {split, len(log) - 1}):
            assert rows == rows_at(source, offset), offset
    assert {each.record == SNAPSHOT for each in all_changes if each.offset < source.start} <= {True}


def test_a_snapshot_adds_what_known_rows_lack() -> None:
    """The log from a table's end on was deleted; a row removed meanwhile is removed."""
    log = [
        samples.topic(1, "a"),
        samples.topic(2, "b"),
        records.RemoveTopicRecord(topic_id=uuid(1)),
    ]
    source = LogInMemory(log, [1, 1, 1])
    known = rows_at(source, 0)
    source.snapshot_data[3] = snapshot_of(image_at(log, 2), 3, time_of(2), VoterSet())
    source.start = 3
    changes = [*snapshot_changes(oldest_state(source), known)]
    assert [(each.offset, each.key, each.after is None) for each in changes] == [
        (2, ("a",), True),
        (2, ("b",), False),
    ]


def leader(number: int) -> LeaderChangeMessage:
    return LeaderChangeMessage(version=0, leader_id=number, voters=[], granting_voters=[])


def test_each_leader_of_the_quorum_is_a_change() -> None:
    """Records name the leader of their epoch; it is unknown until its LeaderChange was read."""
    source = LogInMemory([])
    batches: list[tuple[int, int, Message | VoterSet]] = [
        (0, 3, samples.topic(1, "a")),
        (1, 4, leader(2)),
        (2, 4, VoterSet((Voter(ReplicaKey(1, uuid(1))),))),
        (3, 5, leader(1)),
    ]
    for offset, epoch, what in batches:
        place = {"base_offset": offset, "leader_epoch": epoch, "timestamp_ms": 7}
        if isinstance(what, LeaderChangeMessage):
            record = (ControlType.LEADER_CHANGE, bytes(encode(what, 0)))
        elif isinstance(what, VoterSet):
            record = (ControlType.KRAFT_VOTERS, voters_record(what))
        else:
            source._append([what], offset)
            continue
        source.batches.append((offset, build_control_batch([record], **place)))
    changes = changes_of(source)
    assert [(each.epoch, each.leader, each.record, each.table) for each in changes] == [
        (EPOCH, None, "TopicRecord", "topics"),
        (4, 2, "LeaderChange", "quorum"),
        (4, 2, "KRaftVoters", "voters"),
        (5, 1, "LeaderChange", "quorum"),
    ]
    assert (changes[3].before, changes[3].after) == (
        {"leader": 2, "epoch": 4},
        {"leader": 1, "epoch": 5},
    )


def test_tokens_are_shown_from_their_creation_to_their_end() -> None:
    created = samples.token("t")
    assert isinstance(created, records.DelegationTokenRecord)
    renewed = created.replace(expiration_timestamp=9)
    removal = records.RemoveDelegationTokenRecord(token_id="t")
    source = LogInMemory([created, renewed, removal])
    row = {
        "token": "t",
        "owner": "User:o",
        "requester": "User:r",
        "renewers": "User:n",
        "issued_ms": 1,
        "expires_ms": 3,
        "max_ms": 2,
    }
    later = {**row, "expires_ms": 9}
    assert [(each.table, each.before, each.after) for each in changes_of(source)] == [
        ("tokens", None, row),
        ("tokens", row, later),
        ("tokens", later, None),
    ]
    assert [list(rows_at(source, offset).values()) for offset in range(3)] == [[row], [later], []]
    tree = tree_of(state_at(source, Moment(offset=0)))
    assert tree["delegationToken"]["tokens"]["t"]["owner"] == "User:o"
