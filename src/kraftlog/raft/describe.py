"""What the leader knows of every replica, for DescribeQuorum (D1, D3, D4, D7, R4, R13)."""

from __future__ import annotations

from kraftlog.raft import changes
from kraftlog.raft.progress import UNKNOWN, Progress
from kraftlog.raft.roles.leader import Leader
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.logstate.voters import ReplicaKey
    from kraftlog.raft.core import RaftCore
    from kraftlog.types import Now

#: An observer that has not fetched for this long is no longer listed; a voter always is (D7).
OBSERVER_FORGOTTEN_MS = 5 * 60 * 1000
#: Why a replica lags, besides the obstacles of `progress`: it has not fetched in this epoch; its
#: process is dead; it has not fetched within the fetch timeout; it fetches, and is behind.
NEVER_FETCHED = "never-fetched"
DOWN = "down"
SILENT = "silent"
CATCHING_UP = "catching-up"


class ReplicaDescription(Value):
    """One replica, with times of the leader's wall clock; -1 means that a number is unknown."""

    key: ReplicaKey
    end_offset: int
    fetched_ms: int
    caught_up_ms: int
    is_target: bool = False
    #: Why it lags, and the error code of its last fetch; "" if it does not lag.
    lag_reason: str = ""
    last_error: int = 0


class QuorumDescription(Value):
    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[ReplicaDescription, ...]
    observers: tuple[ReplicaDescription, ...]
    targets: tuple[int, ...] | None
    #: The targets for which the next step waits (R4).
    awaited_targets: tuple[int, ...] = ()
    #: While the newest change of the voters is uncommitted: its offset, and the voters before it.
    uncommitted_voters_offset: int = UNKNOWN
    committed_voters: tuple[int, ...] | None = None


def describe(core: RaftCore, now: Now) -> QuorumDescription | None:
    """The quorum as its leader sees it; None on any other replica (D2)."""
    leader = core.role
    if not isinstance(leader, Leader):
        return None
    voters = core.log.voter_set
    targets = voters.targets
    described_voters = []
    for voter in voters.voters:
        progress = leader.progress.of_voter(voters, voter.key.id) or Progress()
        described_voters.append(_describe(core, leader, voter.key, progress, now))
    observers = [
        _describe(core, leader, key, progress, now)
        for key, progress in leader.progress.replicas.items()
        if _is_listed_observer(core, key, progress, now)
    ]
    committed = core.log.high_watermark
    history = core.log.voters
    is_uncommitted = history.latest_offset >= committed
    return QuorumDescription(
        leader_id=core.me.id,
        epoch=core.election.epoch,
        high_watermark=leader.reported_high_watermark(core),
        voters=tuple(described_voters),
        observers=tuple(sorted(observers, key=_by_id)),
        targets=targets,
        awaited_targets=changes.awaited_targets(core, leader, now),
        uncommitted_voters_offset=history.latest_offset if is_uncommitted else UNKNOWN,
        committed_voters=history.committed(committed).ids if is_uncommitted else None,
    )


def _describe(
    core: RaftCore, leader: Leader, key: ReplicaKey, progress: Progress, now: Now
) -> ReplicaDescription:
    is_target = key.id in (core.log.voter_set.targets or ())
    if key.id == core.me.id:
        return ReplicaDescription(key, core.log.end, now.wall_ms, now.wall_ms, is_target)
    reason, error = _lag_reason(core, leader, key, progress, now)
    return ReplicaDescription(
        key,
        progress.end_offset,
        progress.fetched_wall_ms,
        progress.caught_up_wall_ms,
        is_target,
        reason,
        error,
    )


def _lag_reason(
    core: RaftCore, leader: Leader, key: ReplicaKey, progress: Progress, now: Now
) -> tuple[str, int]:
    """Why a replica lags, and the error that its last fetch got."""
    obstacles = leader.progress.obstacles
    if key.directory_id == NULL_UUID:  # a voter that is known by its id alone
        key = next((other for other in obstacles if other.id == key.id), key)
    obstacle = obstacles.get(key)
    error = 0 if obstacle is None else obstacle.error
    peer = core.peers.get(key.id)
    if peer is not None and peer.is_down:
        return DOWN, error
    if obstacle is not None:
        return obstacle.kind, error
    if progress.fetched_at < 0:
        return NEVER_FETCHED, error
    if now.monotonic_ms - progress.fetched_at >= core.config.fetch_timeout_ms:
        return SILENT, error
    return (CATCHING_UP if progress.end_offset < progress.end_at_last_fetch else ""), error


def _is_listed_observer(core: RaftCore, key: ReplicaKey, progress: Progress, now: Now) -> bool:
    if key.id < 0 or key == core.me or core.log.voter_set.holds(key):
        return False
    silent_ms = now.monotonic_ms - progress.fetched_at
    return progress.fetched_at >= 0 and silent_ms < OBSERVER_FORGOTTEN_MS


def _by_id(replica: ReplicaDescription) -> tuple[int, bytes]:
    return replica.key.id, replica.key.directory_id
