"""A run whose simulated clock stops advancing ends with a violation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.raft.core import RaftCore
from kraftlog.raft.messages import LeaderChanged
from kraftlog_simulator.replica import NO_PROGRESS
from kraftlog_simulator.run import simulate
from kraftlog_simulator.scenarios.goals import begin
from kraftlog_simulator.setting import KAFKA_TIMES, Setting
from kraftlog_simulator.violation import Violation
from kraftlog_simulator.world import World, time_passes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog_simulator.world import Goal


class StuckWorld:
    """A world with endless events in one millisecond."""

    def __init__(self) -> None:
        self.world = World(1, Setting(raft=KAFKA_TIMES))

    def schedule_itself(self) -> None:
        self.world.schedule(self.world.time, self.schedule_itself)

    def script(self) -> Iterator[Goal]:
        yield from begin(self.world)
        self.schedule_itself()
        yield time_passes(1000)


def test_endless_events_in_one_millisecond_end_the_run() -> None:
    """Messages that always get a response without latency would cause this."""
    stuck = StuckWorld()
    with pytest.raises(Violation) as violation:
        stuck.world.play(stuck.script())
    assert violation.value.invariant == NO_PROGRESS


def test_a_core_with_endless_effects_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handling an effect always causes another effect."""
    monkeypatch.setattr(RaftCore, "take_effects", lambda _: [LeaderChanged(-1, 0)])
    outcome = simulate("quiet", 1)
    assert outcome.violation.invariant == NO_PROGRESS


def test_a_timer_that_is_always_due_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer is due again after each poll."""
    arm = RaftCore.arm
    monkeypatch.setattr(RaftCore, "arm", lambda core, name, _: arm(core, name, -1))
    outcome = simulate("snapshot-crash", 1)
    assert outcome.failed
    assert "polling never ends" in str(outcome)
