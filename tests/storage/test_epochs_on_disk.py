"""Q7: the leader-epoch checkpoint matches the log after crashes and truncations."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from kraftlog.records.header import read_header
from kraftlog.storage.disk import write_whole
from kraftlog.storage.recovery import open_log, run
from kraftlog_simulator.files import PowerLost
from tests.storage.making import (
    FOLDER,
    SMALL,
    batch,
    memory_files,
    new_disk,
    open_log_on,
    put,
    read_all,
)

if TYPE_CHECKING:
    from kraftlog.storage.log import Log


def epochs_of(log: Log) -> list[tuple[int, int]]:
    """The epochs of all batches, of one record each, with the offset where each epoch begins."""
    epochs: list[tuple[int, int]] = []
    for offset, raw in enumerate(read_all(log), log.start_offset):
        epoch = read_header(raw).leader_epoch
        if not epochs or epochs[-1][0] != epoch:
            epochs.append((epoch, offset))
    return epochs


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("stale", [None, b"0\n1\n1 0\n"], ids=["lost", "stale"])
def test_q7_lost_epochs_are_rebuilt_from_the_log(clean: bool, stale: bytes | None) -> None:
    """C127, KAFKA-15608: without epochs a log never diverges, and its replica grants any vote."""
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    for offset in range(30):
        put(log, batch(offset, epoch=1 + offset // 10))
    log.finish()
    log.flush()
    expected = log.epochs.entries()
    assert expected == epochs_of(log) == [(1, 0), (2, 10), (3, 20)]
    log.release()
    if stale is None:
        files.unlink(f"{FOLDER}/leader-epoch-checkpoint")
    else:
        write_whole(files, f"{FOLDER}/leader-epoch-checkpoint", stale)
    again, report = open_log_on(new_disk(files), clean=clean)
    if clean:
        assert "leader-epoch-checkpoint" in report.line()
    assert again.epochs.entries() == expected
    again.flush()
    assert b"3 20" in files.bytes_of(f"{FOLDER}/leader-epoch-checkpoint")
    again.release()


def test_q7_after_a_power_loss_the_epochs_match_the_log() -> None:
    """C128, KAFKA-16541: the checkpoint is durable before the recovery point advances."""
    seen = set()
    for moment in range(400):
        files = memory_files()
        log, _ = open_log_on(new_disk(files))
        files.stop_before = files.operations + moment
        point = 0
        try:
            for offset in range(12):
                put(log, batch(offset, epoch=1 + offset // 3))
                if offset % 4 == 3:
                    log.flush()
                    point = log.recovery_point
        except PowerLost:
            files.stop_before = None
            files.power_loss()
        else:
            break
        again, _ = open_log_on(new_disk(files), recovery_point=point)
        assert again.end_offset >= point
        assert again.epochs.entries() == epochs_of(again)
        seen.add(again.end_offset)
        again.release()
    else:
        raise AssertionError("the writes did not end")
    assert len(seen) > 2


def flush_and_release(log: Log) -> int:
    """Flush the log and close its files; return the recovery point."""
    log.finish()
    log.flush()
    log.release()
    return log.recovery_point


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("start", [5, 14, 25])
def test_q7_epochs_are_completed_to_an_earlier_log_start(clean: bool, start: int) -> None:
    """C150: the start was not checkpointed, so the dropped epochs are read from the batches."""
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    for offset in range(30):
        put(log, batch(offset, epoch=1 + offset // 10))
    log.move_start(start)
    assert log.epochs.entries() == epochs_of(log)
    point = flush_and_release(log)
    again, report = open_log_on(new_disk(files), clean=clean, recovery_point=point)
    assert again.start_offset < start
    assert again.epochs.entries() == epochs_of(again)
    again.flush()
    again.release()
    again, report = open_log_on(new_disk(files), clean=clean, recovery_point=point)
    assert "leader-epoch-checkpoint" not in report.line(), "the checkpoint is complete now"
    again.release()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("appended", [0, 4])
def test_q7_epochs_are_rebuilt_after_truncation_below_the_start(clean: bool, appended: int) -> None:
    """The checkpoint has no epochs of the batches that are found when the log starts at 0 again."""
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    for offset in range(6):
        put(log, batch(offset, epoch=offset // 2))
    log.move_start(5)
    assert log.truncate_to(4) == 4
    assert log.epochs.entries() == []
    for offset in range(4, 4 + appended):
        put(log, batch(offset, epoch=7))
    log.roll(0)
    point = flush_and_release(log)
    again, _ = open_log_on(new_disk(files), clean=clean, recovery_point=point)
    assert (again.start_offset, again.end_offset) == (0, 4 + appended)
    expected = [(0, 0), (1, 2), (7, 4)] if appended else [(0, 0), (1, 2)]
    assert again.epochs.entries() == epochs_of(again) == expected
    again.release()


def test_q7_epochs_that_cover_the_first_batch_are_trusted() -> None:
    """Compaction may leave a gap after the log start, which is no reason to scan the log."""
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    put(log, batch(20, epoch=3))
    log.roll(0)
    point = flush_and_release(log)
    again, report = open_log_on(new_disk(files), recovery_point=point)
    assert (again.start_offset, again.epochs.entries()) == (0, [(3, 20)])
    assert not report.is_noteworthy
    again.release()


def test_q7_truncated_records_never_precede_their_replacements() -> None:
    """A power loss after a truncation leaves a prefix of the old or of the new records.

    The epochs would not reveal a mixture of both.
    """
    lengths = set()
    for seed in range(200):
        files = memory_files()
        log, _ = open_log_on(new_disk(files))
        old = [batch(offset, epoch=1) for offset in range(4)]
        new = [old[0], *[batch(offset, epoch=2) for offset in range(1, 4)]]
        put(log, *old)
        log.flush()
        log.truncate_to(1)
        for data in new[1:]:
            put(log, data)
        files.power_loss(Random(seed))
        again, _ = open_log_on(new_disk(files))
        kept = read_all(again)
        assert kept in (old[: len(kept)], new[: len(kept)])
        assert again.epochs.entries() == epochs_of(again)
        lengths.add(len(kept))
        again.release()
    assert len(lengths) > 2


def test_q7_an_empty_log_has_no_epochs_to_rebuild() -> None:
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    for offset in range(3):
        put(log, batch(offset, epoch=1))
    log.move_start(2)
    log.truncate_to(2)
    point = flush_and_release(log)
    again, report = run(
        open_log(new_disk(files), FOLDER, SMALL, clean=True, recovery_point=point, start_offset=2)
    )
    assert (again.start_offset, again.end_offset, again.epochs.entries()) == (2, 2, [])
    assert not report.is_noteworthy
    again.release()


def test_q7_a_log_restarted_at_an_offset_leaves_no_epochs_on_disk() -> None:
    """Recovery removes epochs from the log first, from the file only with the next flush."""
    files = memory_files()
    log, _ = open_log_on(new_disk(files))
    log.truncate_fully_and_start_at(28)
    log.close()
    write_whole(files, f"{FOLDER}/leader-epoch-checkpoint", b"0\n1\n2 28\n")
    log, _ = open_log_on(new_disk(files), clean=False)
    log.truncate_fully_and_start_at(29)
    log.release()
    again, _ = open_log_on(new_disk(files), clean=False)
    assert again.epochs.entries() == []
    again.release()
