"""The invariants of a quorum, one file each.

`docs/understand/simulator-invariants.md` lists them with their sources.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
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
from kraftlog_simulator.invariants.invariant import HOOKS, Invariant
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

if TYPE_CHECKING:
    from kraftlog_simulator.interfaces import SimulatedWorld

#: `CommittedPrefix` updates the oracle's committed log: invariants about new commits come before.
INVARIANTS: tuple[type[Invariant], ...] = (
    OneLeader,
    EpochsGrow,
    OneVote,
    SentAfterDurable,
    EarnedEpochs,
    HighWatermarkGrows,
    OwnEpoch,
    DurableMajority,
    CountsOnlyOwnEpoch,
    CommittedPrefix,
    CommittedKept,
    LogMatching,
    LeaderCompleteness,
    LogShape,
    LegalRoles,
    OneChange,
    RemovalsCommitted,
    ElectedByVoters,
    ChangesReported,
    AppliedOnce,
    ServesLateEnough,
    SnapshotAtStart,
    StableLeader,
    ClientHistory,
)


def make_invariants(
    world: SimulatedWorld, more: tuple[type[Invariant], ...] = ()
) -> tuple[Invariant, ...]:
    return tuple([invariant(world) for invariant in (*INVARIANTS, *more)])


__all__ = ["HOOKS", "INVARIANTS", "Invariant", "make_invariants"]
