"""V24: the invariants of liveness notice a request that waits although nothing holds it back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.groups.pending_writes import PendingWrite
from kraftlog.groups.states import GroupState
from kraftlog.logstate.voters import ReplicaKey
from kraftlog.node.fetch.delayed import DelayedFetch
from kraftlog.raft.messages import Fetch
from kraftlog.raft.reads import PendingRead
from kraftlog.raft.roles.leader import Leader, ParkedFetch, UnprovedRead
from kraftlog.replication.followers import LONG_AGO_MS
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kraftlog_simulator.cluster.liveness.all_invariants import LIVENESS_INVARIANTS
from kraftlog_simulator.cluster.liveness.controller import ReplayIsReported
from kraftlog_simulator.run import simulate
from kraftlog_simulator.violation import Violation
from kraftlog_simulator.world import Goal
from tests.simulator.cluster.test_cluster_invariants import Scene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog.groups.group import Group
    from kraftlog.node.controller.active_controller import ActiveController
    from kraftlog.node.coordinators.group_coordinators import ShardContext
    from kraftlog.replication.followers import Follower, Followers

PRODUCE, FETCH = "no batch waits for further traffic", "no fetch waits for further traffic"
COORDINATOR = "no coordinator waits for further traffic"
GROUP = "no group member waits for further traffic"
ISR = "no change of an ISR waits for further traffic"
REASSIGNMENT = "no reassignment waits for another change"
CONTROLLER = "the controller leaves nothing undone"
SHUTDOWN = "no shutdown waits for a periodic heartbeat"
QUORUM = "no request to the quorum waits for further traffic"


class LiveScene(Scene):
    """A scene, and the node whose turn is shown: at first the leader of the partition."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.shown = self.leader

    def script(self) -> Iterator[Goal]:
        yield from super().script()
        members = self.world.members
        yield Goal("a stable group", lambda: all(it.generation >= 0 for it in members), 10_000)


def wait_for(scene: LiveScene, offset: int) -> None:
    scene.partition.awaiting_isr[:] = [SimpleNamespace(offset=offset, may_fail=True, done=False)]


def fetch_at(scene: LiveScene, offset: int, epoch: int, follower: int = -1) -> None:
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
    node: Any = None  # it does not read
    scene.leader.delayed = [DelayedFetch(node, pending, request, None)]


def all_have_confirmed(scene: LiveScene) -> None:
    wait_for(scene, scene.partition.high_watermark)


def the_isr_is_too_small(scene: LiveScene) -> None:
    scene.partition.configure(SimpleNamespace(min_insync_replicas=3))
    wait_for(scene, scene.partition.written_end + 1)
    images = scene.leader.node.image.partitions
    images[scene.key] = scene.image.replace(isr=(scene.leader.id,), replicas=(0, 1, 2))


def a_consumer_waits_below_the_high_watermark(scene: LiveScene) -> None:
    fetch_at(scene, 0, scene.partition.leader_epoch)


def a_follower_waits_below_the_end(scene: LiveScene) -> None:
    fetch_at(scene, scene.partition.written_end - 1, scene.partition.leader_epoch, follower=1)


def a_fetch_of_another_epoch_waits(scene: LiveScene) -> None:
    fetch_at(scene, scene.partition.high_watermark, scene.partition.leader_epoch + 1)


def a_fetch_of_no_replica_waits(scene: LiveScene) -> None:
    fetch_at(scene, 0, -1)
    del scene.leader.node.replica_manager.partitions[scene.key]


def nothing_waits(_: LiveScene) -> None:
    """An untouched scene."""


def nobody_has_confirmed(scene: LiveScene) -> None:
    scene.partition.replicas = scene.partition.isr = (0, 1, 2)
    images = scene.leader.node.image.partitions
    images[scene.key] = scene.image.replace(isr=(0, 1, 2), replicas=(0, 1, 2))
    wait_for(scene, scene.partition.written_end + 1)


def a_consumer_waits_at_the_high_watermark(scene: LiveScene) -> None:
    fetch_at(scene, scene.partition.high_watermark, scene.partition.leader_epoch)


def a_follower_that_is_no_member_lags_for_long(scene: LiveScene) -> None:
    """By the clock of the leader's process, which has another time than the world."""
    replicate(scene, isr=(scene.leader.id,))
    follower = follower_of(scene)
    follower.broker_epoch = scene.world.image.brokers[follower.broker_id].epoch
    follower.end, follower.caught_up_ms = 0, scene.leader.node.now.monotonic_ms - 10_000
    wait_for(scene, scene.partition.high_watermark)


# Groups ------------------------------------------------------------------------------------------


def coordinator_of(scene: LiveScene) -> ShardContext:
    """The coordinator of the group, on the node that is shown."""
    for node in scene.world.replicas.values():
        coordinators = node.node.group_coordinators
        assert coordinators is not None
        for context in coordinators._shards.values():
            if context.shard.groups:
                scene.shown = node
                return context
    raise AssertionError("no coordinator has a group")


def group_of(scene: LiveScene, state: str = GroupState.STABLE) -> Group:
    [group] = coordinator_of(scene).shard.groups.values()
    group.state = state
    return group


def a_leader_has_no_coordinator(scene: LiveScene) -> None:
    context = coordinator_of(scene)
    coordinators = scene.shown.node.group_coordinators
    assert coordinators is not None
    del coordinators._shards[context.partition.index]


def a_coordinator_is_not_loaded(scene: LiveScene) -> None:
    coordinator_of(scene).shard.is_loaded = False


def a_coordinator_reads_no_further(scene: LiveScene) -> None:
    context = coordinator_of(scene)
    context.shard.is_loaded, context.loaded_to = False, context.load_end - 1
    context.partition.awaiting_isr.clear()


def a_write_of_a_coordinator_waits_without_a_batch(scene: LiveScene) -> None:
    context = coordinator_of(scene)
    context.partition.awaiting_isr.clear()
    context.shard.writes._queue.append(PendingWrite(1, [], 0))


def a_join_waits_in_a_stable_group(scene: LiveScene) -> None:
    coordinator_of(scene).shard.writes._queue.clear()
    next(iter(group_of(scene).members.values())).joining = object()


def a_join_waits_although_all_have_joined(scene: LiveScene) -> None:
    group = group_of(scene, GroupState.PREPARING)
    for member in group.members.values():
        member.joining = object()
    group.join_timer.at = scene.shown.node.now.monotonic_ms + 1000


def a_rebalance_has_no_deadline(scene: LiveScene) -> None:
    group_of(scene, GroupState.PREPARING).join_timer.at = None


def a_sync_waits_in_a_stable_group(scene: LiveScene) -> None:
    next(iter(group_of(scene).members.values())).syncing = object()


def a_sync_waits_although_the_assignment_is_written(scene: LiveScene) -> None:
    coordinator_of(scene).shard.writes._queue.clear()
    next(iter(group_of(scene, GroupState.COMPLETING).members.values())).syncing = object()


def a_session_is_over(scene: LiveScene) -> None:
    session = next(iter(group_of(scene).members.values())).session
    assert session is not None
    session.at = scene.shown.node.now.monotonic_ms - 1


# The ISR -----------------------------------------------------------------------------------------


def replicate(scene: LiveScene, isr: tuple[int, ...]) -> None:
    """The partition has this ISR, as far as its leader, the controllers and the world know."""
    scene.partition.isr = isr
    changed = scene.image.replace(isr=isr)
    scene.leader.node.image.partitions[scene.key] = changed
    scene.world.image.partitions[scene.key] = changed
    for replica in scene.world.replicas.values():
        active = replica.node.active_controller
        assert active is not None
        active.controller.state.partitions[scene.key] = changed


def follower_of(scene: LiveScene) -> Follower:
    followers: Followers = scene.partition.followers
    return next(iter(followers.by_broker.values()))


def a_follower_that_has_caught_up_is_not_proposed(scene: LiveScene) -> None:
    replicate(scene, isr=(scene.leader.id,))


def a_member_that_lags_for_long_is_not_removed(scene: LiveScene) -> None:
    follower = follower_of(scene)
    follower.end, follower.caught_up_ms = 0, LONG_AGO_MS
    show_turn(scene, ISR)
    pass_time(scene, scene.world.setting.lag_ms)


def an_answered_proposal_ends_with_no_record(scene: LiveScene) -> None:
    scene.partition.propose_isr((scene.leader.id,), (-1,))


def a_proposal_is_not_sent(scene: LiveScene) -> None:
    changes = scene.leader.node.replica_manager.in_sync_replicas.changes
    changes.propose(scene.partition, (scene.leader.id,))
    show_turn(scene, ISR)
    pass_time(scene, 1)


# The controller ----------------------------------------------------------------------------------


def active_controller(scene: LiveScene) -> ActiveController:
    """The active controller; its node is shown."""
    leader = scene.world.leader()
    assert leader is not None
    scene.shown = scene.world.replicas[leader.id]
    active = scene.shown.node.active_controller
    assert active is not None
    return active


def a_reassignment_goes_on_although_its_replica_is_in_the_isr(scene: LiveScene) -> None:
    me, other = scene.leader.id, (scene.leader.id + 1) % 3
    scene.world.image.partitions[scene.key] = scene.image.replace(
        replicas=(me, other), isr=(me,), adding=(me,), removing=(other,)
    )


def a_request_to_the_controller_is_not_decided(scene: LiveScene) -> None:
    queued: Any = object()
    active_controller(scene)._waiting.append(queued)


def a_committed_decision_has_no_response(scene: LiveScene) -> None:
    proposed: Any = object()
    active_controller(scene)._last_proposed = proposed


def a_broker_that_may_stop_gets_no_answer(scene: LiveScene) -> None:
    controller = active_controller(scene).controller
    broker = next(each for each in (0, 1, 2) if not controller.state.index.leads(each))
    registration = controller.state.brokers[broker].replace(in_controlled_shutdown=True)
    controller.state.brokers[broker] = registration
    controller.sessions.begin_shutdown(broker, 0)
    show_turn(scene, CONTROLLER)
    session = controller.sessions.get(broker)
    assert session is not None
    controller.sessions.touch(broker, registration.epoch, session.heard_ms + 1, 1)


def a_broker_does_not_report_what_it_has_applied(scene: LiveScene) -> None:
    brokers = scene.world.image.brokers
    other, me = (scene.leader.id + 1) % 3, scene.leader
    brokers[other] = brokers[other].replace(in_controlled_shutdown=True)
    me.node.image.brokers[other] = brokers[other]
    scene.world._reported.pop(me.id, None)
    lifecycle, active = me.node.broker_lifecycle, me.node.active_controller
    assert lifecycle is not None
    assert active is not None
    lifecycle._in_flight = False
    active.controller.sessions.end(me.id)
    scene.find(ReplayIsReported).on_image(scene.world.image)
    show_turn(scene, SHUTDOWN)
    pass_time(scene, 1)


# The quorum --------------------------------------------------------------------------------------


def quorum_leader(scene: LiveScene) -> Leader:
    active_controller(scene)
    role = scene.shown.node.quorum.core.role
    assert isinstance(role, Leader)
    return role


def park(scene: LiveScene, **fields: Any) -> None:
    """A fetch waits at the end of the leader's log, unless `fields` say otherwise."""
    role, core = quorum_leader(scene), scene.shown.node.quorum.core
    mark, now_ms = core.log.high_watermark, core.now.monotonic_ms
    fetch = Fetch("cluster", ReplicaKey(9), 1, core.log.end, 1, mark, 500, 1 << 20)
    role.parked = (ParkedFetch(None, fetch.replace(**fields), now_ms + 500),)


def a_parked_fetch_has_records(scene: LiveScene) -> None:
    park(scene, offset=1)


def a_parked_fetch_has_a_high_watermark(scene: LiveScene) -> None:
    park(scene, high_watermark=1)


def a_parked_fetch_is_over(scene: LiveScene) -> None:
    park(scene)
    pass_time(scene, 10_000)


def a_committed_proposal_waits(scene: LiveScene) -> None:
    quorum_leader(scene).proposals.append((1, object()))


def an_applied_proposal_waits(scene: LiveScene) -> None:
    scene.leader.node.quorum.committed_proposals.append((1, ()))


def a_majority_has_a_record_that_is_not_committed(scene: LiveScene) -> None:
    quorum_leader(scene)
    log: Any = scene.shown.node.quorum.core.log
    log.high_watermark -= 1


def a_read_waits_for_an_applied_offset(scene: LiveScene) -> None:
    scene.leader.node.linearizable_reads._reads.awaiting_apply.append(PendingRead(0, 9, 0, 1))


def a_proved_read_waits(scene: LiveScene) -> None:
    role, core = quorum_leader(scene), scene.shown.node.quorum.core
    for progress in role.progress.replicas.values():
        progress.confirmed_at = 9
    role.reads = (UnprovedRead(None, 8, core.me),)


def a_delayed_request_is_over(scene: LiveScene) -> None:
    operation: Any = SimpleNamespace(done=False)
    node = scene.leader.node
    node.delayed_operations.add(operation, node.now.monotonic_ms - 1)


# Tests -------------------------------------------------------------------------------------------

TAMPERINGS: dict[Callable[[LiveScene], None], str] = {
    all_have_confirmed: PRODUCE,
    the_isr_is_too_small: PRODUCE,
    a_consumer_waits_below_the_high_watermark: FETCH,
    a_follower_waits_below_the_end: FETCH,
    a_fetch_of_another_epoch_waits: FETCH,
    a_fetch_of_no_replica_waits: FETCH,
    a_follower_that_is_no_member_lags_for_long: PRODUCE,
    a_leader_has_no_coordinator: COORDINATOR,
    a_coordinator_is_not_loaded: COORDINATOR,
    a_coordinator_reads_no_further: COORDINATOR,
    a_write_of_a_coordinator_waits_without_a_batch: COORDINATOR,
    a_join_waits_in_a_stable_group: GROUP,
    a_join_waits_although_all_have_joined: GROUP,
    a_rebalance_has_no_deadline: GROUP,
    a_sync_waits_in_a_stable_group: GROUP,
    a_sync_waits_although_the_assignment_is_written: GROUP,
    a_session_is_over: GROUP,
    a_follower_that_has_caught_up_is_not_proposed: ISR,
    a_member_that_lags_for_long_is_not_removed: ISR,
    an_answered_proposal_ends_with_no_record: ISR,
    a_proposal_is_not_sent: ISR,
    a_reassignment_goes_on_although_its_replica_is_in_the_isr: REASSIGNMENT,
    a_request_to_the_controller_is_not_decided: CONTROLLER,
    a_committed_decision_has_no_response: CONTROLLER,
    a_broker_that_may_stop_gets_no_answer: CONTROLLER,
    a_broker_does_not_report_what_it_has_applied: SHUTDOWN,
    a_parked_fetch_has_records: QUORUM,
    a_parked_fetch_has_a_high_watermark: QUORUM,
    a_parked_fetch_is_over: QUORUM,
    a_committed_proposal_waits: QUORUM,
    an_applied_proposal_waits: QUORUM,
    a_majority_has_a_record_that_is_not_committed: QUORUM,
    a_read_waits_for_an_applied_offset: QUORUM,
    a_proved_read_waits: QUORUM,
    a_delayed_request_is_over: QUORUM,
}
#: The settings of the scene for some invariants, and for one of their cases.
SETTINGS: dict[Any, dict[str, Any]] = {
    COORDINATOR: {"members": 1, "offsets_partitions": 1},
    GROUP: {"members": 1, "offsets_partitions": 1},
    ISR: {"replication": 3},
    a_follower_that_is_no_member_lags_for_long: {"replication": 3},
}


def pass_time(scene: LiveScene, for_ms: int) -> None:
    """Time passes for the process that is shown, which does nothing."""
    node = scene.shown.node
    node.now = node.now.replace(monotonic_ms=node.now.monotonic_ms + for_ms)


def show_turn(scene: LiveScene, name: str) -> None:
    """The end of a turn, for one invariant."""
    for invariant in scene.world.cluster_invariants:
        if invariant.name == name:
            invariant.on_image(scene.world.image)
            invariant.on_turn(scene.shown)
            invariant.on_settled_turn(scene.shown)


@pytest.mark.parametrize("tamper", TAMPERINGS, ids=lambda tamper: tamper.__name__)
def test_v24_an_invariant_of_liveness_detects_its_violation(
    tamper: Callable[[LiveScene], None],
) -> None:
    name = TAMPERINGS[tamper]
    scene = LiveScene(**SETTINGS.get(tamper, SETTINGS.get(name, {})))
    show_turn(scene, name)
    tamper(scene)
    with pytest.raises(Violation) as violation:
        show_turn(scene, name)
    assert violation.value.invariant == name


@pytest.mark.parametrize(
    "wait", [nothing_waits, nobody_has_confirmed, a_consumer_waits_at_the_high_watermark]
)
def test_v24_a_request_may_wait_for_what_has_not_happened(
    wait: Callable[[LiveScene], None],
) -> None:
    scene = LiveScene()
    wait(scene)
    scene.world.node_turned(scene.leader)


def test_v24_every_invariant_of_liveness_has_a_case() -> None:
    assert {invariant.name for invariant in LIVENESS_INVARIANTS} == set(TAMPERINGS.values())


def test_v24_batches_and_fetches_wait_in_a_run() -> None:
    outcome = simulate("cluster", 9)
    assert not outcome.failed, str(outcome)
    assert outcome.coverage["batch waits for the ISR"] > 50
    assert outcome.coverage["fetch waits"] > 50
