"""Each invariant detects a state that breaks it, in a valid world that is then changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey, Voter
from kraftlog.raft.messages import Batch, ElectionState, Fetch, FetchResult, VoteResult
from kraftlog.raft.roles.leader import Leader
from kraftlog.types import OffsetAndEpoch
from kraftlog_simulator.administrator import Administrator
from kraftlog_simulator.checkers.log_history import Acknowledged, Invoked
from kraftlog_simulator.faults import foreign_requests
from kraftlog_simulator.invariants import INVARIANTS, Invariant
from kraftlog_simulator.invariants.applied_once import AppliedOnce
from kraftlog_simulator.invariants.changes_reported import ChangesReported
from kraftlog_simulator.invariants.client_history import ClientHistory
from kraftlog_simulator.invariants.committed_kept import CommittedKept
from kraftlog_simulator.invariants.committed_prefix import CommittedPrefix
from kraftlog_simulator.invariants.counts_only_own_epoch import CountsOnlyOwnEpoch
from kraftlog_simulator.invariants.durable_majority import DurableMajority
from kraftlog_simulator.invariants.earned_epochs import EarnedEpochs
from kraftlog_simulator.invariants.elected_by_voters import ElectedByVoters
from kraftlog_simulator.invariants.epochs_grow import EpochsGrow
from kraftlog_simulator.invariants.high_watermark_grows import HighWatermarkGrows
from kraftlog_simulator.invariants.leader_completeness import LeaderCompleteness
from kraftlog_simulator.invariants.legal_roles import LegalRoles
from kraftlog_simulator.invariants.log_matching import LogMatching
from kraftlog_simulator.invariants.log_shape import LogShape
from kraftlog_simulator.invariants.one_change import OneChange
from kraftlog_simulator.invariants.one_leader import OneLeader
from kraftlog_simulator.invariants.one_vote import OneVote
from kraftlog_simulator.invariants.own_epoch import OwnEpoch
from kraftlog_simulator.invariants.removals_committed import RemovalsCommitted
from kraftlog_simulator.invariants.sent_after_durable import SentAfterDurable
from kraftlog_simulator.invariants.serves_late_enough import ServesLateEnough
from kraftlog_simulator.invariants.snapshot_at_start import SnapshotAtStart
from kraftlog_simulator.invariants.stable_leader import StableLeader
from kraftlog_simulator.process import Replica
from kraftlog_simulator.scenarios.goals import all_reached, begin, expect_to_stay
from kraftlog_simulator.setting import KAFKA_TIMES, Setting
from kraftlog_simulator.snapshot import Snapshot, encode_snapshot
from kraftlog_simulator.violation import Violation
from kraftlog_simulator.voter_change import VoterChange
from kraftlog_simulator.world import World, time_passes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog.raft.core import RaftCore
    from kraftlog_simulator.rng import Rng
    from kraftlog_simulator.world import Goal


class Scene:
    """A world of three voters that have committed some records; its leader and one follower."""

    def __init__(self) -> None:
        self.world = World(5, Setting(voters=3, raft=KAFKA_TIMES))
        self.world.play(self.script())
        self.world.workload.stop()
        leader = self.world.agreed_leader()
        assert leader is not None
        self.leader = leader
        self.follower = next(r for r in self.world.running if r is not leader)

    def script(self) -> Iterator[Goal]:
        yield from begin(self.world)
        yield all_reached(self.world, 10)

    def core(self, replica: Replica) -> RaftCore:
        assert replica.core is not None
        return replica.core

    def find(self, kind: type[Invariant]) -> Any:
        return next(i for i in self.world.invariants if type(i) is kind)


def two_leaders(scene: Scene) -> None:
    core = scene.core(scene.follower)
    core.election = core.election.replace(leader_id=scene.follower.id)
    scene.find(OneLeader).on_role(scene.follower, core)


def epoch_shrinks(scene: Scene) -> None:
    scene.find(EpochsGrow).on_persist(scene.follower, ElectionState(0))


def durable_election_differs(scene: Scene) -> None:
    scene.follower.disk.election = ElectionState(7)
    scene.find(EpochsGrow).on_role(scene.follower, scene.core(scene.follower))


def votes_twice(scene: Scene) -> None:
    for voted in (scene.leader.key, scene.follower.key):
        scene.find(OneVote).on_persist(scene.follower, ElectionState(9, -1, voted))


def sends_before_durable(scene: Scene) -> None:
    answer = VoteResult(error=0, leader_id=-1, epoch=9, granted=False)
    scene.find(SentAfterDurable).on_send(scene.follower, scene.leader, answer)


def leads_before_durable(scene: Scene) -> None:
    scene.leader.disk.election = ElectionState(1)
    scene.find(SentAfterDurable).on_role(scene.leader, scene.core(scene.leader))


def high_watermark_decreases(scene: Scene) -> None:
    mark = scene.leader.seen_high_watermark - 1
    scene.find(HighWatermarkGrows).on_commit(scene.leader, scene.core(scene.leader), mark)


def new_leader_commits_less(scene: Scene) -> None:
    scene.leader.seen_high_watermark = 0
    scene.find(HighWatermarkGrows).on_commit(scene.leader, scene.core(scene.leader), 5)


def commits_of_another_epoch(scene: Scene) -> None:
    core = scene.core(scene.leader)
    core.election = core.election.replace(epoch=core.election.epoch + 1)
    scene.find(OwnEpoch).on_commit(scene.leader, core, core.log.high_watermark)


def epoch_begins_without_a_leader_change(scene: Scene) -> None:
    disk = scene.follower.disk
    batch = Batch(disk.end, disk.end, disk.batches[-1].epoch + 1, 100, None, "new")
    disk.append(batch, 1)
    scene.find(OwnEpoch).on_append(scene.follower, batch)


def starts_an_epoch_without_pre_votes(scene: Scene) -> None:
    """P3: without pre-votes, and not as a named successor."""
    core = scene.core(scene.follower)
    core.become("prospective")
    scene.follower.seen_role = core.role
    core.become("candidate", ElectionState(core.election.epoch + 1, -1, core.me))
    scene.find(EarnedEpochs).on_role(scene.follower, core)


def counts_a_replica_of_an_older_epoch(scene: Scene) -> None:
    """Q18: the leader accepted a fetch of a replica in an older epoch."""
    election = scene.core(scene.follower).election
    fetch = Fetch("cluster", scene.follower.key, election.epoch, 0, 0, 0, 0, 1000)
    scene.follower.disk.election = election.replace(epoch=election.epoch - 1)
    scene.find(CountsOnlyOwnEpoch).on_receive(scene.leader, scene.follower, fetch)


def minority_commits(scene: Scene) -> None:
    disk = scene.leader.disk
    batch = Batch(disk.end, disk.end, 1, 100, None, "new")
    disk.append(batch, scene.world.oracle.chain(disk.chains[-1], batch))
    core = scene.core(scene.leader)
    scene.find(DurableMajority).on_commit(scene.leader, core, disk.end)


def committed_prefix_differs(scene: Scene) -> None:
    scene.follower.disk.chains[0] = 10**6
    scene.find(CommittedPrefix).on_full_check()


def committed_prefix_differs_on_commit(scene: Scene) -> None:
    disk = scene.follower.disk
    disk.chains[:] = [chain + 10**6 for chain in disk.chains]
    core = scene.core(scene.follower)
    scene.find(CommittedPrefix).on_commit(scene.follower, core, core.log.high_watermark)


def truncates_what_others_committed(scene: Scene) -> None:
    """The replica that truncates knows of no commit."""
    core = scene.core(scene.follower)
    core.log.high_watermark = scene.follower.seen_high_watermark = scene.follower.applied = 0
    scene.world.truncates(scene.follower, 5)


def truncates_its_own_epoch(scene: Scene) -> None:
    """The truncated record is of the current epoch, uncommitted, and on no other replica."""
    core, disk = scene.core(scene.follower), scene.follower.disk
    disk.append(Batch(disk.end, disk.end, core.election.epoch, 100), 10**6)
    scene.world.truncates(scene.follower, disk.end - 1)


def truncates_what_both_have(scene: Scene, *, durable_on_both: bool) -> None:
    """Two of three replicas have a record that the leader has not committed yet.

    The follower truncates it in the next epoch.
    """
    epoch, leader_disk = scene.core(scene.leader).election.epoch, scene.leader.disk
    end = leader_disk.end
    leader_disk.append(Batch(end, end, epoch, 100), 10**6)
    follower_disk = scene.follower.disk
    for name in ("batches", "bases", "chains"):
        setattr(follower_disk, name, getattr(leader_disk, name)[:])
    core = scene.core(scene.follower)
    core.election = core.election.replace(epoch=epoch + 1)
    leader_disk.sync(len(leader_disk.batches))
    if durable_on_both:
        follower_disk.sync(len(follower_disk.batches))
    scene.world.truncates(scene.follower, end)


def truncates_what_a_majority_has(scene: Scene) -> None:
    truncates_what_both_have(scene, durable_on_both=True)


def logs_differ_before_a_common_batch(scene: Scene) -> None:
    disk = scene.follower.disk
    disk.chains[-1] += 10**6
    scene.find(LogMatching).on_append(scene.follower, disk.batches[-1])


def leader_lacks_records(scene: Scene) -> None:
    core = scene.core(scene.leader)
    core.election = core.election.replace(epoch=core.election.epoch + 1)
    scene.leader.disk.roll_back(2)
    scene.find(LeaderCompleteness).on_role(scene.leader, core)


def batches_have_a_gap(scene: Scene) -> None:
    disk = scene.follower.disk
    batch = Batch(disk.end + 1, disk.end + 1, 1, 100)
    disk.append(batch, 1)
    scene.find(LogShape).on_append(scene.follower, batch)


def truncates_committed(scene: Scene) -> None:
    scene.find(LogShape).on_truncate(scene.follower, scene.follower.applied - 1)


def core_is_wrong_about_its_log(scene: Scene) -> None:
    scene.core(scene.follower).log.epochs.clear()
    scene.find(LogShape).on_full_check()


def role_does_not_fit(scene: Scene) -> None:
    core = scene.core(scene.follower)
    core.election = core.election.replace(leader_id=-1)
    scene.find(LegalRoles).on_role(scene.follower, core)


def role_transition_is_illegal(scene: Scene) -> None:
    scene.follower.seen_role = scene.core(scene.leader).role
    core = scene.core(scene.follower)
    scene.find(LegalRoles).on_role(scene.follower, core)


def applied_twice(scene: Scene) -> None:
    scene.find(AppliedOnce).on_apply(scene.follower, scene.follower.applied)


def applied_beyond_the_high_watermark(scene: Scene) -> None:
    mark = scene.core(scene.follower).log.high_watermark
    scene.find(AppliedOnce).on_apply(scene.follower, mark + 1)


def change_is_never_committed(scene: Scene) -> None:
    end = scene.world.oracle.committed_end
    scene.find(ChangesReported).on_change(VoterChange("reassign", (0,)), end + 1)
    scene.find(ChangesReported).on_full_check()
    scene.find(ChangesReported).on_end()


def applied_after_a_gap(scene: Scene) -> None:
    scene.follower.state += 1
    offset = scene.core(scene.follower).log.high_watermark
    scene.follower.applied = offset - 1
    scene.find(AppliedOnce).on_apply(scene.follower, offset)


def snapshot_of(scene: Scene, end: int) -> Snapshot:
    disk = scene.leader.disk
    position = disk.position_before(end)
    epoch = disk.batches[position].epoch
    voters = scene.world.voters
    return encode_snapshot(OffsetAndEpoch(end, epoch), disk.chains[position], voters, 1)


def state_machine_goes_back(scene: Scene) -> None:
    scene.find(AppliedOnce).on_load(scene.follower, snapshot_of(scene, 5))


def leader_loads_a_snapshot(scene: Scene) -> None:
    scene.find(SnapshotAtStart).on_load(scene.leader, snapshot_of(scene, 5))


def uncommitted_snapshot_is_loaded(scene: Scene) -> None:
    del scene.world.oracle.committed[2:]
    scene.find(SnapshotAtStart).on_load(scene.follower, snapshot_of(scene, 5))


def snapshot_is_misnamed(scene: Scene) -> None:
    wrong = snapshot_of(scene, 5).replace(id=OffsetAndEpoch(6, 1))
    scene.find(SnapshotAtStart).on_load(scene.follower, wrong)


def log_starts_after_its_snapshot(scene: Scene) -> None:
    core = scene.core(scene.follower)
    core.log.snapshot, core.log.start = OffsetAndEpoch(5, 1), 6
    scene.find(SnapshotAtStart).on_full_check()


def log_starts_beyond_the_commits(scene: Scene) -> None:
    core = scene.core(scene.follower)
    core.log.drop_prefix(OffsetAndEpoch(5, 1))
    core.log.high_watermark = 4
    scene.find(SnapshotAtStart).on_snapshot(scene.follower, core)


def snapshot_is_not_on_disk(scene: Scene) -> None:
    core = scene.core(scene.follower)
    core.log.drop_prefix(OffsetAndEpoch(5, 1))
    scene.find(SnapshotAtStart).on_snapshot(scene.follower, core)


def reports_an_uncommitted_removal(scene: Scene) -> None:
    end = scene.world.known_committed_end
    result = FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, scene.leader.id, 1, end, removed_at=end)
    log = scene.core(scene.leader).log
    log.voters.append(end, log.voter_set.without_voter(scene.follower.id))
    scene.find(RemovalsCommitted).on_send(scene.leader, scene.follower, result)


def reports_a_removal_to_a_voter(scene: Scene) -> None:
    result = FetchResult(ErrorCode.NOT_LEADER_OR_FOLLOWER, scene.leader.id, 1, 5, removed_at=1)
    scene.find(RemovalsCommitted).on_send(scene.leader, scene.follower, result)


def serves_too_early(scene: Scene) -> None:
    scene.leader.applied = 0
    epoch = scene.core(scene.leader).election.epoch
    scene.find(ServesLateEnough).on_serve(scene.leader, epoch)


def a_follower_serves(scene: Scene) -> None:
    epoch = scene.core(scene.follower).election.epoch
    scene.find(ServesLateEnough).on_serve(scene.follower, epoch)


def leader_is_deposed(scene: Scene) -> None:
    expect_to_stay(scene.world, scene.leader)
    core = scene.core(scene.follower)
    core.election = core.election.replace(epoch=core.election.epoch + 1)
    scene.find(StableLeader).on_role(scene.follower, core)


def acknowledged_is_lost(scene: Scene) -> None:
    history = scene.world.workload.history
    history.record(Invoked(10**6, 1, "lost"))
    history.record(Acknowledged(10**6, 2, 10**6))
    scene.find(ClientHistory).on_end()


def one_change_removes_two_voters(scene: Scene) -> None:
    log = scene.core(scene.leader).log
    log.voters.append(log.end, log.voter_set.without_voter(0).without_voter(1))
    scene.find(OneChange).on_voters(scene.leader, scene.core(scene.leader))


def a_change_before_the_last_is_committed(scene: Scene) -> None:
    log = scene.core(scene.leader).log
    log.voters.append(log.end, log.voter_set.without_voter(0))
    log.voters.append(log.end + 1, log.voter_set.without_voter(1))
    scene.find(OneChange).on_voters(scene.leader, scene.core(scene.leader))


def another_directory_of_the_same_id(scene: Scene) -> None:
    log = scene.core(scene.leader).log
    for offset, directory in ((log.end, b"a" * 16), (log.end + 1, b"b" * 16)):
        log.voters.append(offset, log.voter_set.with_voter(Voter(ReplicaKey(0, directory))))
    scene.world.oracle.committed_batches[-1] = Batch(log.end, log.end + 1, 1, 100)
    scene.find(OneChange).on_voters(scene.leader, scene.core(scene.leader))


def voters_changed_before_the_epochs_first_commit(scene: Scene) -> None:
    core = scene.core(scene.leader)
    assert isinstance(core.role, Leader)
    core.role.epoch_start = core.log.high_watermark
    core.log.voters.append(core.log.end, core.log.voter_set.without_voter(0))
    scene.find(OneChange).on_voters(scene.leader, core)


def removes_itself_during_a_move(scene: Scene) -> None:
    """R5: during a reassignment a leader that is no target is removed last, by its successor."""
    core = scene.core(scene.leader)
    reassigning = core.log.voter_set.replace(targets=(7,))
    core.log.voters.append(core.log.high_watermark - 2, reassigning)
    core.log.voters.append(core.log.high_watermark - 1, reassigning.without_voter(core.me.id))
    scene.find(OneChange).on_voters(scene.leader, core)


def stays_a_voter_after_its_removal(scene: Scene) -> None:
    core = scene.core(scene.follower)
    core.log.voters.append(1, core.log.voter_set.without_voter(core.me.id))
    scene.find(LegalRoles).on_voters(scene.follower, core)


def leads_after_its_removal(scene: Scene) -> None:
    core = scene.core(scene.leader)
    core.log.voters.append(1, core.log.voter_set.without_voter(core.me.id))
    scene.find(LegalRoles).on_voters(scene.leader, core)


def elected_by_a_non_voter(scene: Scene) -> None:
    core = scene.core(scene.leader)
    one, other = [voter_id for voter_id in (0, 1, 2) if voter_id != scene.leader.id]
    scene.leader.seen_role, core.granted = None, (one, other, 7)
    scene.find(ElectedByVoters).granted.clear()
    scene.find(ElectedByVoters).on_role(scene.leader, core)


def change_is_not_in_the_log(scene: Scene) -> None:
    change = Administrator.removal(scene.follower.key)
    scene.world.change_committed(change, scene.world.oracle.committed_end)
    scene.world.full_check()


BROKEN: list[tuple[type[Invariant], Callable[[Scene], None]]] = [
    (OneLeader, two_leaders),
    (EpochsGrow, epoch_shrinks),
    (EpochsGrow, durable_election_differs),
    (OneVote, votes_twice),
    (SentAfterDurable, sends_before_durable),
    (SentAfterDurable, leads_before_durable),
    (HighWatermarkGrows, high_watermark_decreases),
    (HighWatermarkGrows, new_leader_commits_less),
    (OwnEpoch, commits_of_another_epoch),
    (OwnEpoch, epoch_begins_without_a_leader_change),
    (EarnedEpochs, starts_an_epoch_without_pre_votes),
    (CountsOnlyOwnEpoch, counts_a_replica_of_an_older_epoch),
    (DurableMajority, minority_commits),
    (CommittedPrefix, committed_prefix_differs),
    (CommittedPrefix, committed_prefix_differs_on_commit),
    (CommittedKept, truncates_what_others_committed),
    (CommittedKept, truncates_its_own_epoch),
    (CommittedKept, truncates_what_a_majority_has),
    (LogMatching, logs_differ_before_a_common_batch),
    (LeaderCompleteness, leader_lacks_records),
    (LogShape, batches_have_a_gap),
    (LogShape, truncates_committed),
    (LogShape, core_is_wrong_about_its_log),
    (LegalRoles, role_does_not_fit),
    (LegalRoles, role_transition_is_illegal),
    (OneChange, removes_itself_during_a_move),
    (LegalRoles, stays_a_voter_after_its_removal),
    (LegalRoles, leads_after_its_removal),
    (OneChange, one_change_removes_two_voters),
    (OneChange, a_change_before_the_last_is_committed),
    (OneChange, another_directory_of_the_same_id),
    (OneChange, voters_changed_before_the_epochs_first_commit),
    (ElectedByVoters, elected_by_a_non_voter),
    (ChangesReported, change_is_not_in_the_log),
    (ChangesReported, change_is_never_committed),
    (AppliedOnce, applied_twice),
    (AppliedOnce, applied_beyond_the_high_watermark),
    (AppliedOnce, applied_after_a_gap),
    (AppliedOnce, state_machine_goes_back),
    (RemovalsCommitted, reports_an_uncommitted_removal),
    (RemovalsCommitted, reports_a_removal_to_a_voter),
    (SnapshotAtStart, leader_loads_a_snapshot),
    (SnapshotAtStart, uncommitted_snapshot_is_loaded),
    (SnapshotAtStart, snapshot_is_misnamed),
    (SnapshotAtStart, log_starts_after_its_snapshot),
    (SnapshotAtStart, log_starts_beyond_the_commits),
    (SnapshotAtStart, snapshot_is_not_on_disk),
    (ServesLateEnough, serves_too_early),
    (ServesLateEnough, a_follower_serves),
    (StableLeader, leader_is_deposed),
    (ClientHistory, acknowledged_is_lost),
]


@pytest.mark.parametrize(("kind", "tamper"), BROKEN, ids=[case[1].__name__ for case in BROKEN])
def test_an_invariant_detects_its_violation(
    kind: type[Invariant], tamper: Callable[[Scene], None]
) -> None:
    scene = Scene()
    with pytest.raises(Violation) as violation:
        tamper(scene)
    assert violation.value.invariant == kind.name


def test_a_record_on_a_minority_may_be_truncated() -> None:
    truncates_what_both_have(Scene(), durable_on_both=False)


def test_a_record_replicated_by_a_later_leader_may_be_truncated() -> None:
    """Q21: copies alone commit nothing of an older epoch."""
    scene = Scene()
    scene.follower.disk.from_later_leader.add(10**6)
    truncates_what_both_have(scene, durable_on_both=True)


def test_every_invariant_has_a_case() -> None:
    assert {kind for kind, _ in BROKEN} == set(INVARIANTS)
    assert len({kind.name for kind in INVARIANTS}) == len(INVARIANTS)


def send_foreign_requests_often(world: World, rng: Rng) -> Iterator[Goal]:
    for _ in range(100):
        foreign_requests.send_foreign_request(world, rng)
        yield time_passes(1)


def test_obeying_a_foreign_request_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """I17: the follower's core does not check the cluster id."""
    scene = Scene()
    core = scene.core(scene.follower)
    monkeypatch.setattr(type(core), "cluster_id_differs", lambda *_: False)
    rng = scene.world.rng("strangers")
    with pytest.raises(Violation) as violation:
        scene.world.play(send_foreign_requests_often(scene.world, rng))
    assert violation.value.invariant == foreign_requests.NAME
