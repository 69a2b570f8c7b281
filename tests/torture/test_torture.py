"""A short torture by kills alone, and tests of the checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.metadata.image import Image
from kraftlog.wire.messages.metadata_records import PartitionRecord, TopicRecord
from kraftlog_simulator.checkers.linearizability import Operation
from tests.torture import checks
from tests.torture.journal import AcknowledgedRecord, Change, Journal
from tests.torture.processes import ALONE, until
from tests.torture.run import Run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.torture.checks import TopicRecords

KILLS = 2
RECORDS_BETWEEN_KILLS = 150


def test_acknowledged_operations_survive_kills_under_load(tmp_path: Path) -> None:
    run = Run(str(tmp_path / "run"), 1, ALONE, pace_s=0.02, members=0)
    kills = 0

    def kill_after_enough_records() -> bool:
        nonlocal kills
        target = len(run.journal.acknowledged) + RECORDS_BETWEEN_KILLS
        until("records are acknowledged", lambda: len(run.journal.acknowledged) >= target)
        if kills < KILLS:
            run.nodes.broker.kill()
            run.nodes.revive()
        kills += 1
        return kills > KILLS

    run.faults.step = lambda: None  # type: ignore[method-assign]  # kills depend on records here, not on time
    outcome = run.torture(kill_after_enough_records)
    assert outcome.problems == ()
    assert len(run.journal.acknowledged) > KILLS * RECORDS_BETWEEN_KILLS


def acknowledged(topic: str, offset: int, value: bytes, key: bytes = b"k") -> AcknowledgedRecord:
    return AcknowledgedRecord(topic, 0, offset, key, value)


def test_a_lost_record_is_found() -> None:
    final: TopicRecords = {(0, 5): (b"k", b"five"), (0, 7): (b"k", b"seven")}
    kept = [acknowledged("plain", 5, b"five"), acknowledged("plain", 7, b"seven")]
    assert not [*checks.lost_records(kept, {"plain": final})]
    for lost in (
        acknowledged("plain", 6, b"six"),
        acknowledged("plain", 5, b"six"),
        acknowledged("plain", 4, b"four"),
    ):
        assert [*checks.lost_records([lost], {"plain": final})]


def test_compaction_may_remove_only_superseded_records() -> None:
    final: dict[str, TopicRecords] = {"compacted": {(0, 5): (b"k", b"five")}}
    assert not [*checks.lost_records([acknowledged("compacted", 4, b"four")], final)]
    assert [*checks.lost_records([acknowledged("compacted", 6, b"six")], final)]
    assert [*checks.lost_records([acknowledged("compacted", 4, b"four", b"other")], final)]


def test_trimming_may_remove_only_records_before_the_log_start() -> None:
    final: dict[str, TopicRecords] = {
        "trimmed": {(0, 5): (b"k", b"five"), (0, 7): (b"k", b"seven")}
    }
    assert not [*checks.lost_records([acknowledged("trimmed", 4, b"four")], final)]
    assert [*checks.lost_records([acknowledged("trimmed", 6, b"six")], final)]


def test_unsent_duplicate_and_reordered_records_are_found() -> None:
    sent_values = {b"numbered 1 .", b"numbered 2 ."}

    def errors(*values: bytes) -> list[str]:
        records: TopicRecords = {(0, offset): (b"k", value) for offset, value in enumerate(values)}
        return [*checks.unexpected_records(sent_values, {"numbered": records})]

    assert not errors(b"numbered 1 .", b"numbered 2 .")
    assert errors(b"numbered 3 .")
    assert errors(b"numbered 1 .", b"numbered 1 .")
    assert errors(b"numbered 2 .", b"numbered 1 .")


def test_records_that_change_after_a_read_are_found() -> None:
    found: dict[str, TopicRecords] = {"plain": {(0, 1): (b"k", b"one")}}
    assert not [*checks.changed_records({("plain", 0, 1): b"one"}, found)]
    assert [*checks.changed_records({("plain", 0, 1): b"two"}, found)]
    assert [*checks.changed_records({("plain", 0, 2): b"two"}, found)]
    journal = Journal()
    journal.record_consumed(("plain", 0), 1, b"one")
    journal.record_consumed(("plain", 0), 1, b"two")
    assert len(journal.problems) == 1


def test_commits_that_regress_or_were_not_requested_are_found() -> None:
    journal = Journal()
    name = ("plain", 0)
    journal.requested_commits[name] |= {3, 5, 8}
    journal.record_commit(name, 5)
    assert not [*checks.lost_commits(journal, {name: 5})]
    assert not [*checks.lost_commits(journal, {name: 8})]
    assert [*checks.lost_commits(journal, {name: 3})]
    assert [*checks.lost_commits(journal, {name: 6})]
    assert [*checks.lost_commits(journal, {})]


def test_deletions_of_too_much_and_undone_deletions_are_found() -> None:
    journal = Journal()
    journal.trimmed_to, journal.trim_requested = 5, 7

    def wrong(trimmed: int, retained: int, left: int) -> bool:
        found: dict[str, TopicRecords] = {
            "trimmed": {(0, trimmed): (None, b"")},
            "retained": {(0, retained): (None, bytes(left))},
        }
        return bool([*checks.wrong_deletions(journal, found)])

    assert not wrong(5, 0, 10)
    assert not wrong(7, 9, 60_000)
    assert wrong(4, 0, 10)
    assert wrong(8, 0, 10)
    assert wrong(5, 9, 10)


def test_lost_and_replaced_topics_are_found() -> None:
    image = Image()
    image.replay(TopicRecord(name="made", topic_id=bytes(15) + b"\x07"))
    image.replay(
        PartitionRecord(
            partition_id=0,
            topic_id=bytes(15) + b"\x07",
            replicas=(1,),
            isr=(1,),
            removing_replicas=(),
            adding_replicas=(),
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
        )
    )
    journal = Journal()
    journal.changes.append(Change("made", "create", 1, True))
    journal.topic_ids["made"] = repr(bytes(15) + b"\x07")
    assert not [*checks.lost_changes(journal, image)]
    journal.changes.append(Change("made", "grow", 2, False))
    assert not [*checks.lost_changes(journal, image)]
    journal.topic_ids["made"] = repr(bytes(16))
    assert len([*checks.lost_changes(journal, image)]) == 1
    journal.changes.append(Change("made", "delete", 0, True))
    journal.changes.append(Change("gone", "create", 1, True))
    assert len([*checks.lost_changes(journal, image)]) == 3


def test_lost_and_foreign_records_of_a_recreated_topic_are_found() -> None:
    journal = Journal()
    journal.recreated["id"] = {0: b"incarnation 2 number 1"}
    own, other = (None, b"incarnation 2 number 1"), (None, b"incarnation 1 number 1")
    assert not [*checks.wrong_records_of_recreated_topic(journal, "id", {(0, 0): own})]
    assert [*checks.wrong_records_of_recreated_topic(journal, "id", {(0, 0): other})]
    assert [*checks.wrong_records_of_recreated_topic(journal, "id", {})]
    assert [*checks.wrong_records_of_recreated_topic(journal, "other", {(0, 0): own})]


def test_a_reverted_metadata_write_is_found() -> None:
    writes = [
        Operation("a", ("r", "write", "1"), 0, 1, None),
        Operation("b", ("r", "write", "2"), 2, 3, None),
    ]
    assert not [*checks.impossible_registers(writes, {"r": "2"}, 10)]
    assert [*checks.impossible_registers(writes, {"r": "1"}, 10)]
    assert [*checks.impossible_registers(writes, {"r": None}, 10)]
