"""One run: a scenario with a seed.

The outcome is one line; if the run failed, with the command that repeats it.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager

from kraftlog.value import TYPE_CHECKING, Value
from kraftlog_simulator.faults import fault_plan
from kraftlog_simulator.rng import Rng
from kraftlog_simulator.scenarios.catalog import MIXTURE_MS, SCENARIOS, WITH_FAULTS
from kraftlog_simulator.scenarios.voter_scenarios import VOTER_SCENARIOS
from kraftlog_simulator.violation import Violation
from kraftlog_simulator.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import Any

    from kraftlog_simulator.faults.fault_plan import Fault
    from kraftlog_simulator.scenarios.goals import Script
    from kraftlog_simulator.setting import Setting
    from kraftlog_simulator.world import Goal


#: The scenarios with brokers and their clients, without and with access control; all others are
#: about the metadata quorum.
CLUSTER, ACCESS = CLUSTERS = ("cluster", "access")


class Outcome(Value):
    """The result of a run; `violation` is None if it passed, `coverage` counts rare situations."""

    scenario: str
    seed: int
    violation: Any
    #: Steps of replicas; the invariants are checked after each.
    steps: int
    #: Events of the world that were handled, such as arrivals and due timers.
    events: int
    time_ms: int
    coverage: Any
    plan: tuple[Any, ...]
    options: str = ""

    @property
    def failed(self) -> bool:
        return self.violation is not None

    def __str__(self) -> str:
        where = f"seed {self.seed} {self.scenario} step {self.steps} time {self.time_ms}"
        if self.violation is None:
            return f"{where}: passed"
        return f"{where}: {self.violation} | again: {self.command}"

    @property
    def command(self) -> str:
        """The command that repeats the run."""
        return f"kraftlog simulate --scenario {self.scenario} --seed {self.seed}{self.options}"


def plan_of(seed: int, kinds: Collection[str] | None = None) -> tuple[Fault, ...]:
    return fault_plan.draw(seed, MIXTURE_MS, kinds)


def scenarios(*, nodes: bool = False) -> dict[str, tuple[Callable[[Rng], Setting], Script]]:
    """All scenarios but `CLUSTERS`, for bare cores or for whole nodes."""
    if not nodes:
        return SCENARIOS
    from kraftlog_simulator.nodes.scenarios import NODE_SCENARIOS

    return {**SCENARIOS, **NODE_SCENARIOS}


def scenario_of(seed: int, *, nodes: bool = False) -> str:
    """The scenario of a seed: the mixture if it is odd, else the others but `CLUSTERS` in turn."""
    if seed % 2:
        return "mixture"
    named = [name for name in scenarios(nodes=nodes) if name != "mixture"]
    return named[seed // 2 % len(named)]


def simulate(
    scenario: str,
    seed: int,
    *,
    kinds: Collection[str] | None = None,
    keep: Collection[int] | None = None,
    trace: Callable[[str], None] | None = None,
    make_world: Callable[..., World] = World,
    nodes: bool = False,
) -> Outcome:
    """Run a scenario; `kinds` and `keep` limit the faults, by kind and by number in the plan.

    With `nodes`, every replica is a whole node, as it always is in `CLUSTERS`. Only
    worlds of bare cores are made by `make_world`.
    """
    world: World
    script: Iterator[Goal]
    if scenario in CLUSTERS:
        from kraftlog_simulator.cluster.run import prepare

        world, script, plan = prepare(seed, kinds, trace, has_access_control=scenario == ACCESS)
    else:
        world = _make_world(scenario, seed, trace, make_world, nodes=nodes)
        script = scenarios(nodes=nodes)[scenario][1](world)
        plan = plan_of(seed, kinds) if scenario in WITH_FAULTS else ()
    world.plan = tuple([fault for fault in plan if keep is None or fault.number in keep])
    violation = None
    try:
        with garbage_collection_disabled():
            world.play(script)
    except Violation as found:
        violation = found
        world.note(None, "violation", str(found))
    options = " --nodes" if nodes and scenario not in CLUSTERS else ""
    options += f" --faults {','.join(kinds)}" if kinds is not None else ""
    if keep is not None:
        options += f" --keep {','.join(map(str, sorted(keep)))}"
    return Outcome(
        scenario,
        seed,
        violation,
        world.steps,
        world.handled,
        world.time,
        world.coverage,
        world.plan,
        options,
    )


def _make_world(
    scenario: str,
    seed: int,
    trace: Callable[[str], None] | None,
    make_world: Callable[..., World],
    *,
    nodes: bool,
) -> World:
    """The world of a quorum, of bare cores or of whole nodes."""
    draw_setting, _ = scenarios(nodes=nodes)[scenario]
    setting = draw_setting(Rng(seed, f"setting of {scenario}"))
    if nodes:
        from kraftlog_simulator.nodes.world import NodeWorld, node_setting

        make_world = NodeWorld
        setting = node_setting(setting, changes_voters=scenario in VOTER_SCENARIOS)
    return make_world(seed, setting, trace)


@contextmanager
def garbage_collection_disabled() -> Iterator[None]:
    """Disable garbage collection, which finds nothing in a run and takes 5 % of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
