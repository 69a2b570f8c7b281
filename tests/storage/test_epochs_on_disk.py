"""Q7: the leader-epoch checkpoint says what the log says, whatever becomes of either."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.records.header import read_header
from kraftlog.simulator.files import PowerLost
from kraftlog.storage.disk import write_whole
from tests.storage.making import FOLDER, batch, memory, new_disk, opened, put, read_all

if TYPE_CHECKING:
    from kraftlog.storage.log import Log


def epochs_of(log: Log) -> list[tuple[int, int]]:
    """What a scan of all batches gives."""
    found: list[tuple[int, int]] = []
    for offset, raw in enumerate(read_all(log)):
        epoch = read_header(raw).leader_epoch
        if not found or found[-1][0] != epoch:
            found.append((epoch, offset))
    return found


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("stale", [None, b"0\n1\n1 0\n"], ids=["lost", "left behind"])
def test_q7_epochs_that_were_lost_are_read_from_the_log_again(
    clean: bool, stale: bytes | None
) -> None:
    """C127: KAFKA-15608; a log without epochs would agree with any, and vote for any."""
    files = memory()
    log, _ = opened(new_disk(files))
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
    again, report = opened(new_disk(files), clean=clean)
    if clean:
        assert "leader-epoch-checkpoint" in report.line()
    assert again.epochs.entries() == expected
    again.flush()
    assert b"3 20" in files.bytes_of(f"{FOLDER}/leader-epoch-checkpoint")
    again.release()


def test_q7_after_a_power_loss_the_epochs_match_the_log() -> None:
    """C128: KAFKA-16541; the checkpoint is durable before the recovery point passes it."""
    seen = set()
    for moment in range(400):
        files = memory()
        log, _ = opened(new_disk(files))
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
        again, _ = opened(new_disk(files), recovery_point=point)
        assert again.end_offset >= point
        assert again.epochs.entries() == epochs_of(again)
        seen.add(again.end_offset)
        again.release()
    else:
        raise AssertionError("writing never came to its end")
    assert len(seen) > 2
