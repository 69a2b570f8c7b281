"""Plans of voter changes: what a change would do, and the obstacles to it.

Both are derived from the leader's description of the quorum. A dry run raises an error with the
obstacles for which the leader would refuse the change. After a timeout, the obstacles explain it.
"""

from __future__ import annotations

from kraftlog.client import nodes
from kraftlog.client.cluster import ErrorContext, is_retriable
from kraftlog.client.deadline import Deadline
from kraftlog.errors import (
    RAISE_KRAFT_VERSION,
    ClientError,
    ConfigError,
    ErrorCode,
    RefusedError,
    UnreachableError,
)
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kraftlog.client.cluster import Cluster
    from kraftlog.client.nodes import Quorum, Replica
    from kraftlog.types import Uuid

KRAFT_VERSION = "kraft.version"
#: The least time for finding the cause of a timeout; a live leader describes the quorum at once.
EXPLAIN_S = 1.0
#: Reasons of a lag (`lag_reason`) with which a replica does not fetch.
_NOT_FETCHING = {"down", "silent", "never-fetched"}
#: Reasons of a lag with which a replica fetches but gets no records, as parts of an error.
_LAG_OBSTACLES = {
    "snapshot": "it still has to load a snapshot",
    "diverged": "it still has to truncate its log",
    "refused": "the leader refuses its fetches",
}


class AddVoterPlan(Value):
    """Adding a controller: `lag` is how many records it lacks, -1 if it is not an observer."""

    voter: int
    directory_id: Uuid
    #: The voters before the change.
    voters: tuple[int, ...]
    lag: int


class ReassignVotersPlan(Value):
    """Moving the quorum to other voters; the move waits for nodes that do not fetch yet."""

    #: The voters before the move.
    voters: tuple[int, ...]
    to_add: tuple[int, ...]
    to_remove: tuple[int, ...]
    not_fetching: tuple[int, ...]
    #: The targets of the unfinished move that this one replaces or cancels.
    replaces: tuple[int, ...] | None


# Adding ------------------------------------------------------------------------------------------


def addition_plan(quorum: Quorum, voter: int, directory: Uuid) -> AddVoterPlan:
    ids = tuple(sorted([each.id for each in quorum.voters]))
    observer = _observer(quorum, voter, directory)
    lag = -1 if observer is None else _lag(quorum, observer)
    return AddVoterPlan(voter, directory, ids, lag)


def checked_addition_plan(
    cluster: Cluster, voter: int, directory: Uuid, deadline: Deadline | None = None
) -> AddVoterPlan:
    """What adding a controller would do; raises ConfigError if the leader would refuse it."""
    limit = deadline or cluster.deadline()
    quorum = describe_before_adding(cluster, voter, limit)
    check_addition(cluster, quorum, voter, directory, limit)
    return addition_plan(quorum, voter, directory)


def check_addition(
    cluster: Cluster,
    quorum: Quorum,
    voter: int,
    directory: Uuid,
    deadline: Deadline | None = None,
) -> None:
    """Raise an error if the leader would refuse to add this controller now."""
    obstacles = [
        *_version_obstacles(cluster, deadline),
        *_existing_voter_obstacles(quorum, voter, directory),
        *_quorum_obstacles(quorum),
        *_observer_obstacles(quorum, voter, directory),
    ]
    if obstacles:
        raise ConfigError(f"controller {voter} cannot be added: {'; '.join(obstacles)}")


def describe_before_adding(
    cluster: Cluster, voter: int, deadline: Deadline | None = None
) -> Quorum:
    """The quorum before a controller is added; without a leader the error says what to do."""
    try:
        return nodes.quorum(cluster, deadline)
    except ClientError as error:
        if not cluster.was_reached:
            raise
        why = _why_not_described(error)
        raise UnreachableError(f"controller {voter} cannot be added: {why}") from None


def _why_not_described(error: ClientError) -> str:
    if isinstance(error, RefusedError) and not is_retriable(error):
        return f"the leader does not describe the quorum ({error})"
    return (
        "the quorum has no leader that responds, so a majority of the voters may be down: start "
        f"them, then try again ({error})"
    )


def add(
    cluster: Cluster,
    voter: int,
    directory: Uuid,
    listeners: Sequence[tuple[str, str, int]],
    deadline: Deadline | None = None,
) -> None:
    """Add a controller to the voters; the error after a timeout names its cause.

    Finding the cause takes up to `EXPLAIN_S` after the deadline.
    """
    limit = deadline or cluster.deadline()
    try:
        nodes.add_voter(cluster, voter, directory, listeners, limit)
        return
    except RefusedError as error:
        if error.code != ErrorCode.REQUEST_TIMED_OUT:
            raise
        origin = error.broker
    except UnreachableError:
        if not cluster.was_reached:
            raise
        origin = "no response in time"
    addresses = ", ".join([f"{host}:{port}" for _, host, port in listeners])
    cause = _why_timed_out(
        cluster, voter, directory, addresses, Deadline(max(limit.left_s(), EXPLAIN_S))
    )
    context = ErrorContext("AddRaftVoter", origin)
    raise context.error(ErrorCode.REQUEST_TIMED_OUT, f"controller {voter}", cause)


def _why_timed_out(
    cluster: Cluster, voter: int, directory: Uuid, addresses: str, deadline: Deadline
) -> str:
    """The cause of a timeout, from the leader's description of the quorum after it."""
    try:
        quorum = nodes.quorum(cluster, deadline)
    except ClientError as error:
        return _why_not_described(error)
    obstacles = [*_quorum_obstacles(quorum), *_observer_obstacles(quorum, voter, directory)]
    observer = _observer(quorum, voter, directory)
    if not obstacles and observer is not None and (lag := _lag(quorum, observer)) > 0:
        obstacles = [f"it lags by {lag} records: wait until it has caught up, then try again"]
    return "; ".join(obstacles) or (
        f"it fetches and lags by 0 records, so the leader got no response from it at {addresses}: "
        "check that this address is its controller listener and that the leader can reach it"
    )


def _existing_voter_obstacles(quorum: Quorum, voter: int, directory: Uuid) -> Iterable[str]:
    for replica in quorum.voters:
        if replica.id != voter:
            continue
        if replica.directory_id == directory:
            yield "it is a voter already"
        else:
            yield (
                f"a voter has this id with directory {uuid_text(replica.directory_id)}: remove "
                f"that one first (kraftlog quorum remove-controller -i {voter})"
            )


def _quorum_obstacles(quorum: Quorum) -> Iterable[str]:
    """Why the leader cannot add or remove a voter now."""
    not_fetching = [each.id for each in quorum.voters if each.lag_reason in _NOT_FETCHING]
    if 2 * len(not_fetching) >= len(quorum.voters):
        yield (
            f"no majority of the voters fetches (not fetching: {_listed(not_fetching)}), so "
            "nothing is committed: start them"
        )
    if quorum.targets is not None:
        yield (
            f"the voters are being moved to {_listed(quorum.targets)}: wait, or cancel that "
            "(kraftlog quorum reassign --cancel)"
        )
    elif quorum.committed_voters is not None:
        yield (
            f"the voter change at offset {quorum.uncommitted_voters_offset} is not committed yet "
            f"(voters without it: {_listed(quorum.committed_voters)})"
        )


def _observer_obstacles(quorum: Quorum, voter: int, directory: Uuid) -> Iterable[str]:
    """Why the leader would refuse this observer as a voter."""
    observer = _observer(quorum, voter, directory)
    if observer is None:
        others = [uuid_text(other.directory_id) for other in quorum.observers if other.id == voter]
        if others:
            fetches = f"it fetches with directory {', '.join(others)}, not {uuid_text(directory)}"
            yield f"{fetches}: give that directory"
        else:
            yield (
                f"it is not fetching from leader {quorum.leader_id}: start it with "
                "controller.quorum.bootstrap.servers that reach the quorum"
            )
    elif observer.lag_reason in _NOT_FETCHING:
        yield f"it is not fetching any more ({observer.lag_reason}): start it"
    elif observer.lag_reason in _LAG_OBSTACLES:
        yield _LAG_OBSTACLES[observer.lag_reason]
    elif observer.last_caught_up_ms is None:
        yield (
            f"it lags by {_lag(quorum, observer)} records and has never caught up: wait until "
            "it has"
        )


def _observer(quorum: Quorum, voter: int, directory: Uuid) -> Replica | None:
    matching = [
        replica
        for replica in quorum.observers
        if (replica.id, replica.directory_id) == (voter, directory)
    ]
    return matching[0] if matching else None


def _lag(quorum: Quorum, replica: Replica) -> int:
    ends = [each.log_end_offset for each in quorum.voters if each.id == quorum.leader_id]
    return max(max([*ends, quorum.high_watermark]) - replica.log_end_offset, 0)


def _version_obstacles(cluster: Cluster, deadline: Deadline | None) -> Iterable[str]:
    levels = {each.name: each.level for each in nodes.features(cluster, deadline=deadline).features}
    if levels.get(KRAFT_VERSION, 1) < 1:
        yield f"{KRAFT_VERSION} is 0: {RAISE_KRAFT_VERSION}"


# Reassigning -------------------------------------------------------------------------------------


def reassignment_plan(quorum: Quorum, targets: Sequence[int] | None) -> ReassignVotersPlan:
    """The plan of a move to these targets; for None, of cancelling the unfinished move."""
    voters = sorted([each.id for each in quorum.voters])
    new_voters = voters if targets is None else sorted(targets)
    fetching = {each.id for each in quorum.observers if each.lag_reason not in _NOT_FETCHING}
    to_add = tuple([each for each in new_voters if each not in voters])
    return ReassignVotersPlan(
        tuple(voters),
        to_add,
        tuple([each for each in voters if each not in new_voters]),
        tuple([each for each in to_add if each not in fetching]),
        quorum.targets,
    )


def check_reassignment(
    cluster: Cluster,
    quorum: Quorum,
    targets: Sequence[int] | None,
    deadline: Deadline | None = None,
) -> None:
    """Raise an error if the leader would refuse these targets."""
    obstacles = [*_version_obstacles(cluster, deadline)]
    if targets is None:
        if quorum.targets is None:
            obstacles.append("no reassignment of the voters is in progress")
    elif not targets or len(set(targets)) < len(targets) or min(targets) < 0:
        obstacles.append(f"expected different node ids, at least one, not {_listed(targets)}")
    if obstacles:
        change = "the voters" if targets is not None else "the move of the voters"
        action = "moved" if targets is not None else "cancelled"
        raise ConfigError(f"{change} cannot be {action}: {'; '.join(obstacles)}")


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids)) or "none"
