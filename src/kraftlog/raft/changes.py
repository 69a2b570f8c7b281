"""Voter changes: one voter at a time, or step by step towards target voters (R1 to R6).

Every change is a record of the whole voter set, in force on a replica as soon as it is in its log.
Consecutive sets differ by one voter, and a change begins only when the previous one and a record
of the leader's own epoch are committed. So the majorities of any two sets in force overlap.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.logstate.voters import ReplicaKey, Voter, VoterSet
    from kraftlog.raft.interfaces import Core, LeaderRole
    from kraftlog.types import Now

#: The size that a batch with a voter set is assumed to have: the core never encodes records.
VOTERS_SIZE_BYTES = 200
#: The timer of a leader that resigns as soon as another voter can take over.
HAND_OVER = "hand over"


def reassign(
    core: Core, leader: LeaderRole, pending: object, targets: tuple[int, ...] | None
) -> int:
    """Set, replace or (with None) cancel the target voters (R2); return an error code."""
    latest = core.log.voter_set
    if targets is None:
        if latest.targets is None:
            return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    else:
        if not targets or len(set(targets)) < len(targets) or min(targets) < 0:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        targets = tuple(sorted(targets))
        if targets == (latest.ids if latest.targets is None else latest.targets):
            # If the record is only in a snapshot, the snapshot's end stands for its offset.
            end = max(core.log.voters.latest_offset + 1, core.log.start)
            leader.complete_when_committed(core, pending, end)
            return ErrorCode.NONE
    append_voters(core, leader, latest.replace(targets=targets))
    leader.complete_when_committed(core, pending, core.log.end)
    return ErrorCode.NONE


def add_voter(core: Core, leader: LeaderRole, pending: object, added: Voter) -> int:
    """Add a voter, which must have caught up as an observer (R4)."""
    error = add_voter_error(core, leader, added.key)
    return error or _change(core, leader, pending, core.log.voter_set.with_voter(added))


def add_voter_error(core: Core, leader: LeaderRole, key: ReplicaKey) -> int:
    """The error code for adding this voter now, or NONE."""
    error = _change_error(core, leader)
    if error:
        return error
    if core.log.voter_set.voter(key.id) is not None:
        return ErrorCode.DUPLICATE_VOTER
    if not _is_caught_up(core, leader, key, core.now):
        return ErrorCode.REQUEST_TIMED_OUT
    return ErrorCode.NONE


def remove_voter(core: Core, leader: LeaderRole, pending: object, removed: ReplicaKey) -> int:
    """Remove a voter; a leader that removes itself resigns once the removal is committed."""
    error = _change_error(core, leader)
    if error:
        return error
    voters = core.log.voter_set
    if not voters.holds(removed):
        return ErrorCode.VOTER_NOT_FOUND
    if len(voters.voters) == 1:
        return ErrorCode.INVALID_REQUEST
    return _change(core, leader, pending, voters.without_voter(removed.id))


def update_voter(core: Core, leader: LeaderRole, pending: object, updated: Voter) -> int:
    """Update a voter's endpoints, versions and, if still unknown, its directory id (R11).

    At kraft.version 0 the leader only keeps the update in memory, for `raise_kraft_version`, as in
    Kafka.
    """
    error = _change_error(core, leader)
    if error:
        return error
    voters = core.log.voter_set
    known = voters.voter(updated.key.id)
    if known is None or known.key.directory_id not in {NULL_UUID, updated.key.directory_id}:
        return ErrorCode.VOTER_NOT_FOUND
    if not voters.kraft_version:
        leader.reported = {**leader.reported, updated.key.id: updated}
        leader.complete_when_committed(core, pending, core.log.high_watermark)
        return ErrorCode.NONE
    return _change(core, leader, pending, voters.with_voter(updated))


def reported_voters(core: Core, leader: LeaderRole) -> VoterSet:
    """The voters with what they have reported to this leader, and its own directory id.

    A report that does not match the voter's fetches is left out: see `missing_report_reasons`.
    """
    voters, reasons = core.log.voter_set, missing_report_reasons(core, leader)
    for voter_id, reported in leader.reported.items():
        is_plausible = voter_id != core.me.id or reported.key == core.me
        if is_plausible and voter_id not in reasons and voters.holds(reported.key):
            voters = voters.with_voter(reported)
    return voters.with_directory(core.me)


def missing_report_reasons(core: Core, leader: LeaderRole) -> dict[int, str]:
    """Why the directory ids of voters are unknown, by their ids, and what to do (R11).

    A directory id is recorded for good only if its voter has reported it and fetches with no
    other: a report alone may come from a second process with this node.id, or from a directory
    that has been lost since.
    """
    reasons = {}
    for voter in core.log.voter_set.voters:
        voter_id = voter.key.id
        if voter_id == core.me.id or voter.key.directory_id != NULL_UUID:
            continue
        keys = leader.progress.keys_of(voter_id, core.now, core.config.fetch_timeout_ms)
        reported = leader.reported.get(voter_id)
        if not keys:
            reasons[voter_id] = "is not fetching: start it"
        elif len(keys) > 1:
            reasons[voter_id] = "has two directories that fetch: stop one of the two nodes"
        elif reported is None:
            reasons[voter_id] = "has not reported since the leader changed: try again"
        elif reported.key != keys[0]:
            reasons[voter_id] = "fetches with another directory than it reported: try again"
    return reasons


def raise_kraft_version(core: Core, leader: LeaderRole, pending: object, level: int) -> int:
    """Record the directory ids of all voters, and so raise kraft.version for good (R11)."""
    error = _change_error(core, leader)
    if error:
        return error
    voters = reported_voters(core, leader)
    if level > voters.kraft_version:
        return ErrorCode.INVALID_UPDATE_VERSION
    return _change(core, leader, pending, voters)


def _change_error(core: Core, leader: LeaderRole) -> int:
    """The error code that any single change would get now, or NONE; checked in Kafka's order."""
    if not may_change(core, leader):
        return ErrorCode.REQUEST_TIMED_OUT
    if core.log.voter_set.targets is not None:
        return ErrorCode.REASSIGNMENT_IN_PROGRESS
    return ErrorCode.NONE


def may_change(core: Core, leader: LeaderRole) -> bool:
    """Whether a record of this epoch and the last voter change are committed."""
    committed = core.log.high_watermark
    return committed > leader.epoch_start and core.log.voters.latest_offset < committed


def _change(core: Core, leader: LeaderRole, pending: object, voters: VoterSet) -> int:
    append_voters(core, leader, voters)
    leader.complete_when_committed(core, pending, core.log.end)
    return ErrorCode.NONE


def append_voters(core: Core, leader: LeaderRole, voters: VoterSet) -> None:
    """Append a voter set, which is in force here at once."""
    core.timers.pop(HAND_OVER, None)  # the new set may keep this leader, so it need not resign
    if voters.cluster_id is None:  # an older log, or one of Kafka's, has no cluster id
        voters = voters.replace(cluster_id=core.cluster_id)
    voters = core.log.voters.with_removed(voters)
    # The record that raises kraft.version comes before the voters that need it.
    count = 1 + (voters.kraft_version > core.log.voter_set.kraft_version)
    leader.append(core, count, VOTERS_SIZE_BYTES, ("voters", voters), voters)
    leader.voters_changed(core)


# Towards a target --------------------------------------------------------------------------------


def step(core: Core, leader: LeaderRole) -> None:
    """Append the next single change towards the target voters, if one may be made now (R3)."""
    voters = core.log.voter_set
    if voters.targets is None or not may_change(core, leader):
        return
    missing, surplus = _missing_and_surplus(voters, voters.targets)
    if not missing and not surplus:
        append_voters(core, leader, voters.replace(targets=None))  # R6
    elif missing and len(missing) >= len(surplus):
        added = _most_caught_up(core, leader, missing, core.now)
        if added is not None:
            append_voters(core, leader, voters.with_voter(added))
    else:
        others = [v for v in surplus if v != core.me.id]
        if others:
            append_voters(
                core, leader, voters.without_voter(_first_to_remove(core, leader, others))
            )
        else:
            leader.hand_over(core)  # R5: the next leader removes this one


def awaited_targets(core: Core, leader: LeaderRole, now: Now) -> tuple[int, ...]:
    """The targets that are not voters, while the next step waits until one may be added (R4).

    Empty if there are no target voters, or if the next step does not wait for one of them. See
    `_most_caught_up` for what the targets lack.
    """
    voters = core.log.voter_set
    if voters.targets is None or not may_change(core, leader):
        return ()
    missing, surplus = _missing_and_surplus(voters, voters.targets)
    adds = missing and len(missing) >= len(surplus)
    return tuple(missing) if adds and not _most_caught_up(core, leader, missing, now) else ()


def _missing_and_surplus(voters: VoterSet, targets: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """The targets that are not voters yet, and the voters that are not targets."""
    missing = [target for target in targets if target not in voters.ids]
    return missing, [voter_id for voter_id in voters.ids if voter_id not in targets]


def _most_caught_up(core: Core, leader: LeaderRole, missing: list[int], now: Now) -> Voter | None:
    """The missing target that has caught up and registered, and has the longest log.

    A target is left out if two replicas fetch with its id, since either could be meant, or if it
    would lower kraft.version: it has no directory id, or does not support the level.
    """
    candidates: list[tuple[int, int, Voter]] = []
    level = core.log.voter_set.kraft_version
    for target in missing:
        keys = leader.progress.keys_of(target, now, core.config.fetch_timeout_ms)
        if len(keys) != 1:
            continue
        added = core.new_voter(keys[0])
        if added is None or not added.min_version <= level <= added.max_version:
            continue
        if level and added.key.directory_id == NULL_UUID:
            continue
        if _is_caught_up(core, leader, keys[0], now):
            candidates.append((-leader.progress.of(keys[0]).end_offset, target, added))
    return min(candidates, key=_rank)[2] if candidates else None


def _is_caught_up(core: Core, leader: LeaderRole, key: ReplicaKey, now: Now) -> bool:
    config = core.config
    return leader.progress.is_caught_up(
        key, now, config.fetch_timeout_ms, config.election_timeout_ms
    )


def _first_to_remove(core: Core, leader: LeaderRole, surplus: list[int]) -> int:
    """The voter to remove first: a silent one if any, as a majority of the rest must be alive."""

    def rank(voter_id: int) -> tuple[bool, int]:
        progress = leader.progress.of_voter(core.log.voter_set, voter_id)
        timed_out_at = core.now.monotonic_ms - core.config.fetch_timeout_ms
        return progress is not None and progress.fetched_at > timed_out_at, voter_id

    return min(surplus, key=rank)


def _rank(candidate: tuple[int, int, Voter]) -> tuple[int, int]:
    return candidate[0], candidate[1]


def resign_if_removed(core: Core, leader: LeaderRole) -> None:
    """Resign once this leader's own removal is committed."""
    if not core.is_voter and core.log.voters.latest_offset < core.log.high_watermark:
        leader.resign(core)
