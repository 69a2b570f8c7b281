"""V24: the invariants of liveness notice a request that waits although nothing holds it back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.node.handlers.fetch import DelayedFetch
from kraftlog.simulator.cluster.liveness import LIVENESS_INVARIANTS
from kraftlog.simulator.run import simulate
from kraftlog.simulator.violation import Violation
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.simulator.cluster.test_cluster_invariants import Scene

if TYPE_CHECKING:
    from collections.abc import Callable

PRODUCE, FETCH = "no batch waits for further traffic", "no fetch waits for further traffic"


def wait_for(scene: Scene, offset: int) -> None:
    scene.partition.awaiting_isr[:] = [SimpleNamespace(offset=offset, may_fail=True, done=False)]


def fetch_at(scene: Scene, offset: int, epoch: int, follower: int = -1) -> None:
    topic_id, index = scene.key
    part = FetchPartition(
        partition=index,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
    )
    request = FetchRequest(
        replica_id=follower,
        max_wait_ms=500,
        min_bytes=1,
        topics=[FetchTopic(topic_id=topic_id, partitions=[part])],
    )
    pending: Any = SimpleNamespace(version=17, takes_encoded=False)
    scene.leader.delayed = [DelayedFetch(pending, request, None)]


def all_have_confirmed(scene: Scene) -> None:
    wait_for(scene, scene.partition.high_watermark)


def the_isr_is_too_small(scene: Scene) -> None:
    scene.partition.configure(SimpleNamespace(min_insync_replicas=3))
    wait_for(scene, scene.partition.written_end + 1)
    images = scene.leader.node.image.partitions
    images[scene.key] = scene.image.replace(isr=(scene.leader.id,), replicas=(0, 1, 2))


def a_consumer_waits_below_the_high_watermark(scene: Scene) -> None:
    fetch_at(scene, 0, scene.partition.leader_epoch)


def a_follower_waits_below_the_end(scene: Scene) -> None:
    fetch_at(scene, scene.partition.written_end - 1, scene.partition.leader_epoch, follower=1)


def a_fetch_of_another_epoch_waits(scene: Scene) -> None:
    fetch_at(scene, scene.partition.high_watermark, scene.partition.leader_epoch + 1)


def a_fetch_of_no_replica_waits(scene: Scene) -> None:
    fetch_at(scene, 0, -1)
    del scene.leader.node.replica_manager.partitions[scene.key]


def nothing_waits(_: Scene) -> None:
    """An untouched scene."""


def nobody_has_confirmed(scene: Scene) -> None:
    scene.partition.replicas = scene.partition.isr = (0, 1, 2)
    images = scene.leader.node.image.partitions
    images[scene.key] = scene.image.replace(isr=(0, 1, 2), replicas=(0, 1, 2))
    wait_for(scene, scene.partition.written_end + 1)


def a_consumer_waits_at_the_high_watermark(scene: Scene) -> None:
    fetch_at(scene, scene.partition.high_watermark, scene.partition.leader_epoch)


TAMPERINGS: dict[Callable[[Scene], None], str] = {
    all_have_confirmed: PRODUCE,
    the_isr_is_too_small: PRODUCE,
    a_consumer_waits_below_the_high_watermark: FETCH,
    a_follower_waits_below_the_end: FETCH,
    a_fetch_of_another_epoch_waits: FETCH,
    a_fetch_of_no_replica_waits: FETCH,
}


def show_turn(scene: Scene) -> None:
    for invariant in scene.world.cluster_invariants:
        invariant.on_turn(scene.leader)


@pytest.mark.parametrize("tamper", TAMPERINGS, ids=lambda tamper: tamper.__name__)
def test_v24_an_invariant_of_liveness_detects_its_violation(
    tamper: Callable[[Scene], None],
) -> None:
    scene = Scene()
    tamper(scene)
    with pytest.raises(Violation) as violation:
        show_turn(scene)
    assert violation.value.invariant == TAMPERINGS[tamper]


@pytest.mark.parametrize(
    "wait", [nothing_waits, nobody_has_confirmed, a_consumer_waits_at_the_high_watermark]
)
def test_v24_a_request_may_wait_for_what_has_not_happened(wait: Callable[[Scene], None]) -> None:
    scene = Scene()
    wait(scene)
    show_turn(scene)


def test_v24_every_invariant_of_liveness_has_a_case() -> None:
    assert {invariant.name for invariant in LIVENESS_INVARIANTS} == set(TAMPERINGS.values())


def test_v24_batches_and_fetches_wait_in_a_run() -> None:
    outcome = simulate("cluster", 9)
    assert not outcome.failed, str(outcome)
    assert outcome.coverage["batch waits for the ISR"] > 50
    assert outcome.coverage["fetch waits"] > 50
