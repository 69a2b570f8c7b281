"""Checkpoint lines of a deleted log must not apply to the next log of its name."""

from __future__ import annotations

import pytest

from kraftlog.steps import result_of
from kraftlog.storage.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LINES_PER_STEP,
    LOG_STARTS,
    RECOVERY_POINTS,
    decode_offsets,
)
from kraftlog.storage.committed_offsets import COMMITTED_OFFSETS
from kraftlog.storage.offset_checkpoints import FILES, OffsetCheckpoints, set_offset
from kraftlog_simulator.files import MemoryFiles

OLD, OTHER = ("t", 0), ("t", 1)
ONLY_THE_OTHER = {file: {OTHER: 5} for file in FILES}


def open_checkpoints(files: MemoryFiles) -> OffsetCheckpoints:
    return OffsetCheckpoints(files, "d", files.list("d"))


def checkpoints_with_lines() -> tuple[MemoryFiles, OffsetCheckpoints]:
    """Checkpoints of two logs with durable lines in all four files."""
    files = MemoryFiles()
    files.make_folder("d")
    checkpoints = open_checkpoints(files)
    for offsets in (
        checkpoints.recovery_points,
        checkpoints.log_starts,
        checkpoints.high_watermarks,
        checkpoints.cleaned,
    ):
        offsets.update({OLD: 7, OTHER: 5})
    checkpoints.write()
    files.write_back()
    return files, checkpoints


def offsets_after_power_loss(files: MemoryFiles) -> dict[str, dict[tuple[str, int], int]]:
    """Lose power; return the offsets that each file then has."""
    files.power_loss()
    return {file: decode_offsets(files.bytes_of(f"d/{file}"), file) for file in FILES}


def test_v15_a_new_log_starts_without_old_checkpoint_lines() -> None:
    files, checkpoints = checkpoints_with_lines()
    checkpoints.forget(OLD)
    checkpoints.clear(OLD)
    assert offsets_after_power_loss(files) == ONLY_THE_OTHER


def test_v15_an_offset_of_zero_has_no_line_not_even_an_old_one() -> None:
    """A directory with thousands of empty logs has short checkpoint files."""
    files, checkpoints = checkpoints_with_lines()
    for offsets in (checkpoints.recovery_points, checkpoints.log_starts):
        set_offset(offsets, OLD, 0)
        set_offset(offsets, ("never used", 0), 0)
        set_offset(offsets, OTHER, 6)
    checkpoints.lower_high_watermark(OLD, 0)
    job = result_of(checkpoints.job_in_steps())
    job.run(files)
    assert checkpoints.install(job)
    files.sync_folder("d")
    expected = {file: {OTHER: 6} for file in (RECOVERY_POINTS, LOG_STARTS)}
    expected |= {HIGH_WATERMARKS: {OTHER: 5}, CLEANED_OFFSETS: {OLD: 7, OTHER: 5}}
    assert offsets_after_power_loss(files) == expected


def test_v15_lines_of_a_log_deleted_before_a_restart_are_cleared() -> None:
    files, _ = checkpoints_with_lines()
    checkpoints = open_checkpoints(files)
    checkpoints.clear(OLD)
    assert offsets_after_power_loss(files) == ONLY_THE_OTHER
    assert OLD not in checkpoints.recovery_points


def test_v15_a_job_in_progress_does_not_restore_cleared_lines() -> None:
    files, checkpoints = checkpoints_with_lines()
    job = result_of(checkpoints.job_in_steps())
    job.run(files)
    checkpoints.forget(OLD)
    checkpoints.clear(OLD)
    assert not checkpoints.install(job)
    assert offsets_after_power_loss(files) == ONLY_THE_OTHER


def test_v15_a_job_in_steps_does_not_restore_a_cleared_line() -> None:
    """A log can be deleted and recreated between two steps of a job."""
    files = MemoryFiles()
    files.make_folder("d")
    checkpoints = open_checkpoints(files)
    names = [("t", number) for number in range(10 * LINES_PER_STEP)]
    checkpoints.recovery_points.update(dict.fromkeys(names[1:], 7))
    checkpoints.log_starts.update(dict.fromkeys(names, 7))
    steps = checkpoints.job_in_steps()
    next(steps)
    checkpoints.forget(OLD)
    checkpoints.clear(OLD)
    assert not checkpoints.install(result_of(steps))


def test_v15_lines_only_in_a_job_in_progress_are_cleared() -> None:
    files = MemoryFiles()
    files.make_folder("d")
    checkpoints = open_checkpoints(files)
    checkpoints.log_starts[OLD] = 7
    job = result_of(checkpoints.job_in_steps())
    job.run(files)
    checkpoints.forget(OLD)
    checkpoints.clear(OLD)
    assert not checkpoints.install(job)


@pytest.mark.parametrize("is_synced", [False, True])
def test_v15_lines_that_a_power_loss_may_restore_are_cleared(is_synced: bool) -> None:
    """The old content of a file can reappear until the directory is synced."""
    files, checkpoints = checkpoints_with_lines()
    checkpoints.forget(OLD)
    job = result_of(checkpoints.job_in_steps())
    job.run(files)
    assert checkpoints.install(job)
    if is_synced:
        files.sync_folder("d")
        checkpoints.installed(job)
    files.journal = []
    checkpoints.clear(OLD)
    assert bool(files.journal) is not is_synced
    assert offsets_after_power_loss(files) == ONLY_THE_OTHER


def test_a_new_name_needs_no_write() -> None:
    files, checkpoints = checkpoints_with_lines()
    files.journal = []
    checkpoints.clear(("another", 0))
    assert files.journal == []


def test_many_names_are_cleared_by_one_write_of_each_file() -> None:
    files, checkpoints = checkpoints_with_lines()
    for name in (OLD, OTHER):
        checkpoints.forget(name)
    files.journal = []
    for name in (OLD, OTHER):
        checkpoints.clear(name)
    renamed = [line for line in files.journal if line.startswith("rename")]
    assert renamed == [f"rename d/{file}.tmp" for file in FILES]


def test_lines_without_a_log_after_a_restart_are_cleared_by_one_write() -> None:
    files, _ = checkpoints_with_lines()
    checkpoints = open_checkpoints(files)
    checkpoints.forget_all_but(set())
    files.journal = []
    for name in (OLD, OTHER):
        checkpoints.clear(name)
    renamed = [line for line in files.journal if line.startswith("rename")]
    assert renamed == [f"rename d/{file}.tmp" for file in FILES]
    assert offsets_after_power_loss(files) == {file: {} for file in FILES}


def test_the_cleaner_checkpoint_exists_from_the_first_compaction() -> None:
    files = MemoryFiles()
    files.make_folder("d")
    open_checkpoints(files).write()
    assert sorted(files.list("d")) == sorted(
        {RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, COMMITTED_OFFSETS}
    )
    files, checkpoints = checkpoints_with_lines()
    checkpoints.cleaned.clear()
    checkpoints.write()
    assert decode_offsets(files.bytes_of(f"d/{CLEANED_OFFSETS}"), "") == {}


def test_v15_a_job_in_progress_stores_no_point_above_a_truncation() -> None:
    """Recovery reports a recovery point beyond the log end as corruption."""
    files, checkpoints = checkpoints_with_lines()
    checkpoints.recovery_points[OLD] = 100
    job = result_of(checkpoints.job_in_steps())
    job.run(files)
    checkpoints.lower({OLD: 50})
    assert not checkpoints.install(job)
    assert checkpoints.recovery_points[OLD] == 50
    assert offsets_after_power_loss(files)[RECOVERY_POINTS] == {OLD: 7, OTHER: 5}


def test_v15_a_truncation_lowers_a_point_already_read_for_a_job() -> None:
    """The directory reads the points log by log; a log may be truncated after its own was read."""
    files, checkpoints = checkpoints_with_lines()
    checkpoints.recovery_points[OLD] = 100
    checkpoints.lower({OLD: 50})
    job = result_of(checkpoints.job_in_steps())
    job.run(files)
    assert checkpoints.install(job)
    assert job.offsets[RECOVERY_POINTS][OLD] == 50
