"""Any order of appends, truncations, flushes, crashes and faults, compared with a list."""

from __future__ import annotations

import contextlib
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kraftlog.errors import DiskFullError
from kraftlog.simulator.files import Fault, PowerLost
from tests.storage.making import SMALL, T0
from tests.storage.model import ModelledLog

COUNTS = st.lists(st.integers(1, 5), min_size=1, max_size=6)


class LogMachine(RuleBasedStateMachine):
    """Applies random operations to a `ModelledLog`, which compares the log with its model."""

    def __init__(self) -> None:
        super().__init__()
        self.m = ModelledLog(SMALL)

    @rule(counts=COUNTS, producer_id=st.sampled_from([-1, -1, 1, 2]), again=st.integers(1, 6))
    def append(self, counts: list[int], producer_id: int, again: int) -> None:
        for _ in range(again):
            self.m.append(counts, producer_id)

    @rule(producer_id=st.sampled_from([11, 12]), commit=st.booleans(), count=st.integers(1, 3))
    def transaction(self, producer_id: int, commit: bool, count: int) -> None:
        self.m.append([count, 1], producer_id, transactional=True)
        if count > 1:
            self.m.end_transaction(producer_id, commit=commit)

    @rule()
    def new_epoch(self) -> None:
        self.m.epoch += 1

    @rule()
    def flush(self) -> None:
        self.m.flush()

    @rule(back=st.integers(0, 60))
    def truncate(self, back: int) -> None:
        self.m.truncate(max(self.m.end - back, 0))

    @rule(ahead=st.integers(0, 50))
    def start_again(self, ahead: int) -> None:
        self.m.start_again(self.m.end + ahead)

    @rule(part=st.floats(0, 1))
    def move_start(self, part: float) -> None:
        self.m.move_start(self.m.start + int((self.m.end - self.m.start) * part))

    @rule(keep_bytes=st.integers(0, 3000))
    def retention(self, keep_bytes: int) -> None:
        self.m.delete_old_segments(keep_bytes)

    @rule()
    def roll(self) -> None:
        self.m.log.roll(T0)

    @rule()
    def write_back(self) -> None:
        self.m.files.write_back()

    @rule()
    def close(self) -> None:
        self.m.close_and_open()

    @rule(seed=st.integers(0, 1 << 20), power=st.booleans())
    def crash(self, seed: int, power: bool) -> None:
        self.m.crash(Random(seed) if seed else None, power=power)

    @rule(
        seed=st.integers(0, 1 << 20),
        operation=st.integers(0, 12),
        act=st.sampled_from(["append", "flush", "truncate", "roll", "move_start", "close"]),
    )
    def crash_during(self, seed: int, operation: int, act: str) -> None:
        """Crash before one of the disk operations of an act."""
        m = self.m
        m.files.stop_before = m.files.operations + operation
        with contextlib.suppress(PowerLost):
            match act:
                case "append":
                    m.append([5, 5, 5, 5], 1)
                case "truncate":
                    m.truncate(max(m.end - 40, 0))
                case "move_start":
                    m.move_start((m.start + m.end) // 2)
                case "roll":
                    m.log.roll(T0)
                case "flush":
                    m.flush()
                case _:
                    m.close_and_open()
        m.files.stop_before = None
        m.crash(Random(seed) if seed else None, power=bool(seed & 2))

    @precondition(lambda self: self.m.log.needs_flush)
    @rule()
    def fail_a_sync(self) -> None:
        self.m.files.faults = [Fault("sync"), Fault("sync_directory")]
        self.m.fail_to_flush()
        self.m.files.faults = []
        self.m.crash(None, power=False)

    @rule(room=st.integers(0, 400), count=st.sampled_from([1, 2, 12]))
    def fill_the_disk(self, room: int, count: int) -> None:
        m = self.m
        m.files.capacity_bytes = m.files.used_bytes() + room
        sequences, before = dict(m.next_sequence), list(m.possible)
        try:
            m.append([3] * count, 1)
        except DiskFullError:
            m.next_sequence, m.possible = sequences, before
        m.files.capacity_bytes = None

    @invariant()
    def log_and_model_agree(self) -> None:
        self.m.check()
        assert self.m.files.open_handles() <= 4


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=150, stateful_step_count=25, deadline=None, report_multiple_bugs=False
)


def test_deleted_segments_come_back_before_newer_records() -> None:
    """Nothing makes their deletion durable: the process ends after it, and then the machine."""

    def come_back(random: Random) -> bool:
        m = ModelledLog(SMALL)
        m.append([5, 5])
        m.append([5, 5])
        m.log.roll(T0)
        m.flush()
        m.delete_old_segments(0)
        m.crash(None, power=False)
        assert (m.log.start_offset, m.log.end_offset) == (20, 20)
        m.append([1])
        m.crash(random, power=True)
        return (m.log.start_offset, m.log.end_offset) == (0, 21)

    assert any(come_back(Random(seed)) for seed in range(1, 400)), "no run shows it"
