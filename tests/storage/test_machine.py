"""Random appends, truncations, flushes, crashes and faults: the log always matches its model."""

from __future__ import annotations

import contextlib
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kraftlog.errors import DiskFullError
from kraftlog_simulator.files import Fault, PowerLost
from tests.storage.making import SMALL, T0
from tests.storage.model import ModelledLog

COUNTS = st.lists(st.integers(1, 5), min_size=1, max_size=6)


class LogMachine(RuleBasedStateMachine):
    """Applies random operations to a `ModelledLog`, which compares the log with its model."""

    def __init__(self) -> None:
        super().__init__()
        self.modelled_log = ModelledLog(SMALL)

    @rule(counts=COUNTS, producer_id=st.sampled_from([-1, -1, 1, 2]), times=st.integers(1, 6))
    def append(self, counts: list[int], producer_id: int, times: int) -> None:
        for _ in range(times):
            self.modelled_log.append(counts, producer_id)

    @rule(producer_id=st.sampled_from([11, 12]), commit=st.booleans(), count=st.integers(1, 3))
    def transaction(self, producer_id: int, commit: bool, count: int) -> None:
        self.modelled_log.append([count, 1], producer_id, transactional=True)
        if count > 1:
            self.modelled_log.end_transaction(producer_id, commit=commit)

    @rule()
    def new_epoch(self) -> None:
        self.modelled_log.epoch += 1

    @rule()
    def flush(self) -> None:
        self.modelled_log.flush()

    @rule(back=st.integers(0, 60))
    def truncate(self, back: int) -> None:
        self.modelled_log.truncate(max(self.modelled_log.end - back, 0))

    @rule(ahead=st.integers(0, 50))
    def truncate_fully(self, ahead: int) -> None:
        self.modelled_log.truncate_fully(self.modelled_log.end + ahead)

    @rule(fraction=st.floats(0, 1))
    def move_start(self, fraction: float) -> None:
        self.modelled_log.move_start(
            self.modelled_log.start
            + int((self.modelled_log.end - self.modelled_log.start) * fraction)
        )

    @rule(keep_bytes=st.integers(0, 3000))
    def retention(self, keep_bytes: int) -> None:
        self.modelled_log.delete_old_segments(keep_bytes)

    @rule()
    def roll(self) -> None:
        self.modelled_log.log.roll(T0)

    @rule()
    def write_back(self) -> None:
        self.modelled_log.files.write_back()

    @rule()
    def close(self) -> None:
        self.modelled_log.close_and_open()

    @rule(seed=st.integers(0, 1 << 20), power=st.booleans())
    def crash(self, seed: int, power: bool) -> None:
        self.modelled_log.crash(Random(seed) if seed else None, power=power)

    @rule(
        seed=st.integers(0, 1 << 20),
        operation=st.integers(0, 12),
        action=st.sampled_from(["append", "flush", "truncate", "roll", "move_start", "close"]),
    )
    def crash_during(self, seed: int, operation: int, action: str) -> None:
        """Crash before one of the disk operations of an action, or after them all."""
        modelled_log = self.modelled_log
        modelled_log.files.stop_before = modelled_log.files.operations + operation
        with contextlib.suppress(PowerLost):
            match action:
                case "append":
                    modelled_log.append([5, 5, 5, 5], 1)
                case "truncate":
                    modelled_log.truncate(max(modelled_log.end - 40, 0))
                case "move_start":
                    modelled_log.move_start((modelled_log.start + modelled_log.end) // 2)
                case "roll":
                    modelled_log.log.roll(T0)
                case "flush":
                    modelled_log.flush()
                case _:
                    modelled_log.close_and_open()
        modelled_log.files.stop_before = None
        modelled_log.crash(Random(seed) if seed else None, power=bool(seed & 2))

    @precondition(lambda self: self.modelled_log.log.needs_flush)
    @rule()
    def fail_a_sync(self) -> None:
        self.modelled_log.files.faults = [Fault("sync"), Fault("sync_folder")]
        self.modelled_log.fail_to_flush()
        self.modelled_log.files.faults = []
        self.modelled_log.crash(None, power=False)

    @rule(free_bytes=st.integers(0, 400), count=st.sampled_from([1, 2, 12]))
    def fill_the_disk(self, free_bytes: int, count: int) -> None:
        modelled_log = self.modelled_log
        modelled_log.files.capacity_bytes = modelled_log.files.used_bytes() + free_bytes
        sequences, before = dict(modelled_log.next_sequence), list(modelled_log.possible)
        try:
            modelled_log.append([3] * count, 1)
        except DiskFullError:
            modelled_log.next_sequence, modelled_log.possible = sequences, before
        modelled_log.files.capacity_bytes = None

    @invariant()
    def log_and_model_agree(self) -> None:
        self.modelled_log.check()
        assert self.modelled_log.files.open_handles() <= 4


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=150, stateful_step_count=25, deadline=None, report_multiple_bugs=False
)


def test_a_power_loss_may_restore_a_segment_deleted_before_a_crash() -> None:
    """A process that is killed after the deletion has not made it durable."""

    def power_loss_restores_a_segment(random: Random) -> bool:
        modelled_log = ModelledLog(SMALL)
        modelled_log.append([5, 5])
        modelled_log.append([5, 5])
        modelled_log.log.roll(T0)
        modelled_log.flush()
        modelled_log.delete_old_segments(0)
        modelled_log.crash(None, power=False)
        assert (modelled_log.log.start_offset, modelled_log.log.end_offset) == (20, 20)
        modelled_log.append([1])
        modelled_log.crash(random, power=True)
        return (modelled_log.log.start_offset, modelled_log.log.end_offset) == (0, 21)

    assert any(power_loss_restores_a_segment(Random(seed)) for seed in range(1, 400)), (
        "no seed restores the segment"
    )
