"""The sentences of a page: messages, changes of replicas, voter changes, faults."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.raft.messages import (
    BeginEpoch,
    BeginEpochResult,
    EndEpoch,
    EndEpochResult,
    Fetch,
    FetchResult,
    SnapshotChunk,
    SnapshotFetch,
    Vote,
    VoteResult,
)
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from typing import Any

    from kraftlog.raft.core import RaftCore
    from kraftlog_simulator.world import World

_ERRORS = {number: name for name, number in vars(ErrorCode).items() if isinstance(number, int)}

#: Faults that happen at one instant and leave no visible state.
INSTANT_FAULTS = {
    "reset": "Connections break.",
    "wall-clock": "A wall clock jumps. The protocol does not use wall clocks.",
    "foreign-requests": "Foreign senders send requests that every replica must refuse.",
    "shutdown": "A process shuts down cleanly.",
}


class ReplicaState(Value):
    """The state of a replica at one moment; `role` is "down" while it does not run."""

    role: str
    epoch: int
    leader: int
    voted: int
    end: int
    flushed: int
    high_watermark: int
    paused: bool
    #: Whether its epoch and vote still wait for the disk.
    writing: bool
    #: (epoch, first offset) of the log's epochs.
    epochs: tuple[tuple[int, int], ...]
    #: By its own log: the voters, whether it is a voter, the target voters, and the offsets of
    #: voters records.
    voters: tuple[int, ...]
    votes: bool
    targets: tuple[int, ...] | None
    voters_at: tuple[int, ...]
    #: The log start; everything before it is in a snapshot.
    start: int = 0


# Messages ----------------------------------------------------------------------------------------


def kind_of(body: Any, request: Any = None) -> str:
    """The kind of the message `body`: a request, or the response to `request`."""
    request = request if request is not None else body
    if isinstance(request, Vote):
        return "pre-vote" if request.pre_vote else "vote"
    kinds: dict[Any, str] = {
        BeginEpoch: "begin",
        EndEpoch: "end",
        Fetch: "fetch",
        SnapshotFetch: "snapshot",
    }
    return kinds[type(request)]


def request(source: int, target: int, body: Any) -> str:
    """The sentence of a request, without its end, which is `fate_of`."""
    if isinstance(body, Vote):
        if body.pre_vote:
            return f"{source} requests a pre-vote from {target}, still in epoch {body.epoch}"
        return f"{source} requests the vote of {target} in epoch {body.epoch}"
    if isinstance(body, BeginEpoch):
        return f"{source} notifies {target} that it leads epoch {body.epoch}"
    if isinstance(body, EndEpoch):
        order = ", ".join([str(key.id) for key in body.successors])
        return f"{source} notifies {target} that it resigns; successors, preferred first: {order}"
    if isinstance(body, SnapshotFetch):
        which = _snapshot(body.id.offset)
        return f"{source} fetches {which} from {target}, from byte {body.position} on"
    assert isinstance(body, Fetch)
    return f"{source} fetches from {target}, from offset {body.offset} on"


def fate_of(request: Any, fate: str, response: Any) -> str:
    """The end of a request's sentence; `response` is None if there is none."""
    if fate == "lost":
        return ": lost."
    if fate == "refused":
        return ": the process is down."
    if isinstance(request, Vote):
        if response is None:
            return ": no response."
        return ": granted." if response.granted else ": refused."
    return "."


def response(source: int, target: int, body: Any, request: Any, core: RaftCore | None) -> str:
    """The sentence of a response; `core` is that of the responding replica at this moment."""
    if isinstance(body, VoteResult):
        return _vote_response(source, target, body, request, core)
    if isinstance(body, FetchResult):
        return _fetch_response(source, target, body)
    if isinstance(body, SnapshotChunk) and not body.error:
        piece = f"bytes {body.position} to {body.position + body.length - 1} of {body.size}"
        return f"{source} sends {target} {piece} of {_snapshot(body.id.offset)}."
    if body.error:
        return f"{source} refuses the request of {target}: {_error(body)}."
    if isinstance(body, BeginEpochResult):
        return f"{source} acknowledges {target} as the leader of epoch {body.epoch}."
    assert isinstance(body, EndEpochResult)
    return f"{source} acknowledges the resignation of {target}."


def _vote_response(
    source: int, target: int, body: VoteResult, request: Vote, core: RaftCore | None
) -> str:
    if body.granted and request.pre_vote:
        return f"{source} grants {target} a pre-vote."
    if body.granted:
        return f"{source} grants {target} its vote in epoch {body.epoch}."
    what = "a pre-vote" if request.pre_vote else "its vote"
    return f"{source} refuses {target} {what}: {_why_refused(source, body, request, core)}."


def _why_refused(source: int, body: VoteResult, request: Vote, core: RaftCore | None) -> str:
    if body.error:
        return _error(body)
    if core is not None and not core.log.is_covered_by(request.last_epoch, request.end_offset):
        return "its own log is more up to date"
    if body.leader_id == source:
        return "it is the leader"
    if body.leader_id >= 0:
        return f"it follows the leader {body.leader_id}"
    voted = core.election.voted if core is not None else None
    if voted is not None and not request.pre_vote:
        return f"it has voted for {'itself' if voted.id == source else voted.id}"
    return "not granted now"


def _fetch_response(source: int, target: int, body: FetchResult) -> str:
    if body.error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leader = f"{body.leader_id} is" if body.leader_id >= 0 else "it knows no leader"
        return f"{source} tells {target} that it is not the leader; {leader} (epoch {body.epoch})."
    if body.error:
        return f"{source} refuses the request of {target}: {_error(body)}."
    committed = body.high_watermark
    high_watermark = f"high watermark {committed}" if committed > 0 else "high watermark unknown"
    if body.diverging is not None:
        epoch, end = body.diverging.epoch, body.diverging.offset
        return f"{source} tells {target} that its log diverges: epoch {epoch} ends at {end}."
    if body.snapshot is not None:
        start = body.snapshot.offset
        return f"{source} refers {target} to the snapshot before its log start, {start}."
    if body.batches:
        first, last = body.batches[0].base_offset, body.batches[-1].last_offset
        return f"{source} sends {target} {_offsets(first, last + 1)}; {high_watermark}."
    return f"{source} has no new records for {target}; {high_watermark}."


def _error(body: Any) -> str:
    if body.error == ErrorCode.FENCED_LEADER_EPOCH:
        return f"its epoch is fenced, the current one is {body.epoch}"
    if body.error == ErrorCode.UNKNOWN_LEADER_EPOCH:
        return f"its epoch is unknown, the current one is {body.epoch}"
    return _ERRORS.get(body.error, str(body.error))


def _snapshot(end: int) -> str:
    return f"the snapshot up to {end}"


def _offsets(first: int, end: int) -> str:
    return f"offset {first}" if end == first + 1 else f"offsets {first} to {end - 1}"


# Replicas ----------------------------------------------------------------------------------------


def changes(who: int, before: ReplicaState, now: ReplicaState) -> Iterator[tuple[str, str]]:
    """Kind and sentence of each change; `started` and the recording describe starts and ends."""
    leads = now.role == "leader"
    if now.role == "down":
        if now.end < before.end:
            yield "log", f"{who} has lost its records from offset {now.end} on."
        return
    if (now.role, now.epoch, now.leader) != (before.role, before.epoch, before.leader):
        yield "role", role(who, now.role, now.epoch, now.leader, now.voted)
    if now.start > before.start and now.start == now.end != before.end:
        yield "log", f"{who} replaces its log by {_snapshot(now.start)}."
    elif now.start > before.start:
        yield "log", f"{who} has a snapshot: its log starts at {now.start}."
    elif now.end > before.end:
        verb = "appends" if leads else "replicates"
        yield "log", f"{who} {verb} {_offsets(before.end, now.end)}."
    elif now.end < before.end:
        yield "log", f"{who} truncates its log to {now.end}: those records were never committed."
    elif now.flushed > before.flushed:
        yield "log", f"{who} has flushed its log up to {now.flushed}."
    if (now.voters, now.targets) != (before.voters, before.targets):
        yield "voters", voters(who, before, now)
    if now.high_watermark > before.high_watermark:
        end = now.high_watermark
        if leads:
            yield "commit", f"{who} commits up to {end}: a majority has it on disk."
        else:
            yield "commit", f"{who} learns that the high watermark is {end}."


def voters(who: int, before: ReplicaState, now: ReplicaState) -> str:
    """The new voters by the log of `who`."""
    if now.end < before.end:
        return f"{who} reverts a voter change by truncation. The voters: {_list(now.voters)}."
    if now.voters == before.voters:
        if now.targets is None:
            return f"{who} has no target voters any more. The voters: {_list(now.voters)}."
        return f"{who} has a reassignment in its log. The target voters: {_list(now.targets)}."
    added = [f"{voter} is added" for voter in now.voters if voter not in before.voters]
    removed = [f"{voter} is removed" for voter in before.voters if voter not in now.voters]
    verb = "appends a voter change" if now.role == "leader" else "finds a voter change in its log"
    return f"{who} {verb}: {' and '.join(added + removed)}. The voters: {_list(now.voters)}."


def _list(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids))


def change_result(change: str, error: int) -> str:
    """The sentence of a response to the administrator."""
    if error:
        return f"The request to {change} fails: {_ERRORS.get(error, str(error))}."
    return f"The request to {change} succeeds: it is committed."


def role(who: int, name: str, epoch: int, leader: int, voted: int) -> str:
    """The sentence of a new role, or a new leader or vote."""
    match name:
        case "prospective":
            return f"{who} hears from no leader and requests pre-votes, still in epoch {epoch}."
        case "candidate":
            return f"{who} becomes a candidate in epoch {epoch} and votes for itself."
        case "leader":
            return f"{who} is elected: it leads epoch {epoch}."
        case "follower":
            return f"{who} follows {leader} in epoch {epoch}."
        case "voted":
            return f"{who} has voted for {voted} in epoch {epoch} and waits for the result."
        case "resigned":
            return f"{who} no longer leads epoch {epoch}: it has resigned."
        case "observer":
            activity = f"follows {leader}" if leader >= 0 else "looks for the leader"
            return f"{who}, an observer, {activity} in epoch {epoch}."
    return f"{who} knows no leader of epoch {epoch}."


def started(who: int, start: int, end: int, epoch: int) -> str:
    if not end and not epoch:
        return f"{who} starts with an empty disk."
    snapshot = f" (up to {start} in a snapshot)" if start else ""
    return f"{who} starts with a log up to {end}{snapshot} and epoch {epoch}."


# Faults ------------------------------------------------------------------------------------------


def current_faults(world: World, cuts: str) -> list[tuple[str, list[int]]]:
    """The current faults and their replicas; `cuts` is the text of `describe_cuts`."""
    faults: list[tuple[str, list[int]]] = []
    network = world.network
    if cuts:
        faults.append((cuts, []))
    if network.loss:
        faults.append((f"{network.loss / 10:g} % of messages are lost", []))
    if network.duplicates:
        faults.append((f"{network.duplicates / 10:g} % of messages are duplicated", []))
    if network.corrupt_permille:
        faults.append(
            (f"{network.corrupt_permille / 10:g} % of responses with records are corrupt", [])
        )
    if network.delayed:
        faults.append((f"{network.delayed / 10:g} % of messages are delayed", []))
    held = sum(until > world.time for until in network.clogged.values())
    if held:
        faults.append((f"{held} directions hold messages back", []))
    if world.batches_per_fetch < world.setting.batches_per_fetch and not world.healed:
        faults.append(("a fetch returns at most one batch", []))
    faults += [(f"{who} has a full disk", [who]) for who in world.room]
    faults += [(f"{who} has a disk whose writes fail", [who]) for who in world.write_errors]
    faults += [(f"{who} has a disk whose syncs fail", [who]) for who in world.failing_disks]
    faults += [
        (f"{who} has a slow disk", [who])
        for who in world.slow_disks
        if who not in world.failing_disks
    ]
    faults += [(f"{who} may crash at any point", [who]) for who in world.crash_permille]
    for replica in world.replicas.values():
        who, rate = replica.id, replica.clock_rate
        if replica.core is None and replica.incarnation:
            faults.append((f"{who} is down", [who]))
        if replica.paused:
            faults.append((f"{who} is paused", [who]))
        if rate != 1000:
            faults.append((f"{who}'s clock runs at {rate / 10:g} %", [who]))
    return faults


def describe_cuts(
    replicas: Collection[int], voters: Collection[int], cuts: Collection[tuple[int, int]]
) -> str:
    """The groups that are cut off from each other, or the directions that lose all messages."""
    if not cuts:
        return ""
    groups = _connected_groups(replicas, cuts)
    if len(groups) > 1:
        alone = sorted([min(group) for group in groups if len(group) == 1])
        if len(alone) >= len(groups) - 1:
            return f"{' and '.join(map(str, alone))} {'is' if len(alone) == 1 else 'are'} cut off"
        return f"split: {_groups_text(groups)}"
    groups = _connected_groups(voters, cuts)
    if len(groups) > 1:
        return f"voters split: {_groups_text(groups)}"
    arrows = [
        f"{a}↔{b}" if (b, a) in cuts else f"{a}→{b}"
        for a, b in sorted(cuts)
        if a < b or (b, a) not in cuts
    ]
    more = f" and {len(arrows) - 4} more" if len(arrows) > 4 else ""
    return f"cut: {' '.join(arrows[:4])}{more}"


def _connected_groups(replicas: Iterable[int], cuts: Collection[tuple[int, int]]) -> list[set[int]]:
    """The groups of replicas linked by an uncut direction, directly or through others."""
    groups: list[set[int]] = []
    for who in replicas:
        connected = [
            group
            for group in groups
            if any((who, other) not in cuts or (other, who) not in cuts for other in group)
        ]
        groups = [group for group in groups if group not in connected]
        groups.append({who}.union(*connected))
    return groups


def _groups_text(groups: list[set[int]]) -> str:
    return " | ".join(sorted([" ".join(map(str, sorted(group))) for group in groups]))
