"""The explorer of a replicated partition exhausts its bounds, and copies and keys are sound."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog_simulator.explorer.bounds import NODES
from kraftlog_simulator.explorer.replication.bounds import QUICK, A, B, Bound, C
from kraftlog_simulator.explorer.replication.broker import Broker, step
from kraftlog_simulator.explorer.replication.cluster import Cluster
from kraftlog_simulator.explorer.replication.space import ReplicationSpace
from kraftlog_simulator.explorer.search import explore

if TYPE_CHECKING:
    from kraftlog_simulator.explorer.replication.cluster import State

BOUND = Bound(
    "for tests",
    records=2,
    fencings=1,
    unfencings=1,
    elections=1,
    lags=1,
    crashes=1,
    losses=1,
    slow_disk=True,
)


@pytest.mark.slow
@pytest.mark.parametrize("bound", QUICK, ids=lambda bound: bound.name)
def test_every_run_within_the_bound_keeps_the_invariants(bound: Bound) -> None:
    """S1 S2 S3 S4 S7 S8 S9 S10."""
    outcome = explore(ReplicationSpace(bound))
    assert not outcome.broken, "\n".join(outcome.trace)
    assert outcome.exhausted
    assert outcome.states > 1000, "too few states to prove anything"


class RealBrokers(Cluster):
    """Keeps a real broker beside the tables of results, and applies every event to it too."""

    def __init__(self, bound: Bound) -> None:
        self.real = [Broker(i, has_slow_disk=bound.slow_disk) for i in range(NODES)]
        super().__init__(bound)

    def _apply(self, state: list[int], broker_id: int, event: str, argument: Any) -> None:
        step_key = (state[broker_id], event, argument)
        real = self.real[broker_id]
        arguments = self.arguments(event, argument)
        after = step(real, event, arguments)
        self.real[broker_id] = after.broker
        super()._apply(state, broker_id, event, argument)
        number, sent = self._steps[step_key]
        assert self.brokers.number(after.broker) == number, (event, argument)
        assert [self.messages.number(message) for message in after.sent] == [m for _, m in sent]


def random_walk(cluster: Cluster, rng: Random, length: int) -> State:
    state = cluster.first
    for _ in range(length):
        moves = cluster.moves(state)
        if not moves:
            break
        state = cluster.after(state, rng.choice(moves))
    return state


def test_a_step_depends_on_the_keys_of_broker_and_message_alone() -> None:
    """A broker with a long history acts like any other with the same key."""
    rng = Random(1)
    for bound in (
        BOUND,
        BOUND.replace(replicas=(B, A, C), has_elr=True, min_isr=2, power_losses=1),
        BOUND.replace(replicas=(A, B), targets=((C, B),), reassignments=2, cancellations=1),
        BOUND.replace(deletions=1, shutdowns=1),
    ):
        cluster = RealBrokers(bound)
        first = cluster.real[:]
        for _ in range(40):
            cluster.real = first[:]
            random_walk(cluster, rng, 40)


def test_numbered_brokers_are_never_changed() -> None:
    cluster = Cluster(BOUND)
    for seed in range(10):
        random_walk(cluster, Random(seed), 30)
    for number in range(1, len(cluster.brokers)):
        assert cluster.brokers.number(cluster.brokers[number]) == number
    for number in range(1, len(cluster.metadata)):
        assert cluster.metadata.number(cluster.metadata[number]) == number
