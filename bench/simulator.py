"""The speed of the simulator: Kafka's seven scenarios with Kafka's timing, and the random mixture.

All invariants are checked, on one core. Kafka's own simulator, with its append rate and latencies,
ran 19,459 of its scenarios per CPU hour, of 14,300 events and 7.3 virtual seconds each.

An event of a raft core is one call: a message, an expired timer, a proposal or a completed flush.
To measure the cores alone, their calls are recorded and replayed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kraftlog_simulator.explorer.bounds import Bound
from kraftlog_simulator.explorer.quorum_space import QuorumSpace
from kraftlog_simulator.explorer.search import explore
from kraftlog_simulator.run import simulate
from kraftlog_simulator.scenarios.catalog import KAFKA_MIX
from kraftlog_simulator.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kraftlog.raft.core import RaftCore
    from kraftlog_simulator.process import Replica

#: The number of seeds of each scenario.
SEEDS = 20
#: The number of seeds of each scenario whose calls are recorded, and the rounds of replaying them,
#: of which the fastest counts.
RECORDED_SEEDS = 3
ROUNDS = 5
METHODS = ("handle", "poll", "propose", "shut_down")
EXPLORED = Bound("for the bench", records=0, max_states=200_000)


def play(
    scenarios: Sequence[str], seeds: int = SEEDS, make_world: Callable[..., World] = World
) -> tuple[float, int, int, int, int]:
    """CPU seconds, runs, events, steps and virtual ms of many runs."""
    events = steps = virtual_ms = 0
    start = time.process_time()
    for name in scenarios:
        for seed in range(1, seeds + 1):
            outcome = simulate(name, seed, make_world=make_world)
            assert not outcome.failed, str(outcome)
            events += outcome.events
            steps += outcome.steps
            virtual_ms += outcome.time_ms
    return time.process_time() - start, len(scenarios) * seeds, events, steps, virtual_ms


class Recording:
    """The initial state of a core, and all calls to it."""

    def __init__(self, core: RaftCore) -> None:
        self.initial = core.copy()
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        for method in METHODS:
            setattr(core, method, self._recording(method, getattr(core, method)))

    def _recording(self, method: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def record(*arguments: Any) -> Any:
            self.calls.append((method, arguments))
            return act(*arguments)

        return record

    def replay(self) -> RaftCore:
        """The core after the same calls, from the same initial state."""
        core = self.initial.copy()
        methods = {method: getattr(core, method) for method in METHODS}
        take_effects = core.take_effects
        for method, arguments in self.calls:
            methods[method](*arguments)
            take_effects()
        return core


def record_cores(scenarios: Sequence[str]) -> list[Recording]:
    """Recordings of all cores of these scenarios, one for each start of a replica."""
    recordings: list[Recording] = []

    class Recorder(World):
        def started(self, replica: Replica) -> None:
            assert replica.core is not None
            recordings.append(Recording(replica.core))
            super().started(replica)

    play(scenarios, RECORDED_SEEDS, Recorder)
    return recordings


def best_seconds(act: Callable[[], object]) -> float:
    """The CPU seconds of the fastest round."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        act()
        times.append(time.process_time() - start)
    return min(times)


def quorum_of(recordings: Sequence[Recording]) -> list[RaftCore]:
    """Three cores at the end of their recordings."""
    return [recording.replay() for recording in recordings[:3]]


def cases() -> Iterator[tuple[str, float, str]]:
    """The name, value and unit of each figure."""
    # The mixture runs three times with the same seeds, for a longer measurement.
    for what, scenarios in (("Kafka's seven scenarios", KAFKA_MIX), ("mixture", ("mixture",) * 3)):
        yield from world_cases(what, scenarios)
        yield from core_cases(what, scenarios)
    quorum = quorum_of(record_cores(("quiet",)))
    seconds = best_seconds(
        lambda: [hash(tuple([c.copy().key() for c in quorum])) for _ in range(1000)]
    )
    yield "copy and hash of a quorum of three", 1e6 * seconds / 1000, "µs"
    yield from explorer_cases()


def world_cases(what: str, scenarios: Sequence[str]) -> Iterator[tuple[str, float, str]]:
    spent, runs, events, steps, virtual_ms = play(scenarios)
    yield f"{what}: scenarios", 3600 * runs / spent, "per CPU hour"
    yield f"{what}: events", events / spent, "per CPU second"
    yield f"{what}: simulated time", virtual_ms / 1000 / spent, "s per CPU second"
    yield f"{what}: simulated time of a scenario", virtual_ms / 1000 / runs, "s"
    yield f"{what}: one step of a replica, network and checks included", 1e6 * spent / steps, "µs"


def core_cases(what: str, scenarios: Sequence[str]) -> Iterator[tuple[str, float, str]]:
    recordings = record_cores(scenarios)
    events = sum([len(recording.calls) for recording in recordings])
    whole = best_seconds(lambda: play(scenarios, RECORDED_SEEDS))
    yield (
        f"{what}: one event of a Raft core, its surroundings included",
        1e6 * whole / events,
        "µs",
    )
    alone = best_seconds(lambda: [recording.replay() for recording in recordings])
    yield f"{what}: one event of a Raft core alone", 1e6 * alone / events, "µs"


def explorer_cases() -> Iterator[tuple[str, float, str]]:
    start = time.process_time()
    outcome = explore(QuorumSpace(EXPLORED))
    spent = time.process_time() - start
    yield "explorer: transitions", outcome.transitions / spent, "per second"
    yield "explorer: states", outcome.states / spent, "per second"
