"""Sentences about a run: messages, role changes, faults."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.raft.messages import (
    Begin,
    BeginResult,
    End,
    EndResult,
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
    from kraftlog.simulator.world import World

_ERRORS = {number: name for name, number in vars(ErrorCode).items() if isinstance(number, int)}

#: Faults that happen at one instant and leave no visible state.
STRIKES = {
    "reset": "Connections break.",
    "wall-clock": "A wall clock jumps. The protocol does not look at it.",
    "strangers": "Strangers send requests that nobody may obey.",
    "shutdown": "A process is asked to shut down in order.",
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
    #: By its own log: the voters, whether it is one, the targets, and the offsets of voters
    #: records.
    voters: tuple[int, ...]
    votes: bool
    targets: tuple[int, ...] | None
    voters_at: tuple[int, ...]
    #: The log start; everything before it is in a snapshot.
    start: int = 0


# Messages ----------------------------------------------------------------------------------------


def kind_of(body: Any, asked: Any = None) -> str:
    """The kind of a request, or of the response to the request `asked`."""
    request = asked if asked is not None else body
    if isinstance(request, Vote):
        return "pre-vote" if request.pre_vote else "vote"
    kinds: dict[Any, str] = {
        Begin: "begin",
        End: "end",
        Fetch: "fetch",
        SnapshotFetch: "snapshot",
    }
    return kinds[type(request)]


def request(source: int, target: int, body: Any) -> str:
    """The sentence of a request without its end, which tells its fate."""
    if isinstance(body, Vote):
        if body.pre_vote:
            return f"{source} asks {target} whether it would vote for it after epoch {body.epoch}"
        return f"{source} asks {target} for its vote in epoch {body.epoch}"
    if isinstance(body, Begin):
        return f"{source} tells {target} that it leads epoch {body.epoch}"
    if isinstance(body, End):
        order = ", ".join([str(key.id) for key in body.successors])
        return f"{source} tells {target} that it leaves; who should stand, best first: {order}"
    if isinstance(body, SnapshotFetch):
        which = _snapshot(body.id.offset)
        return f"{source} asks {target} for {which}, from byte {body.position} on"
    assert isinstance(body, Fetch)
    has = f"it has all before {body.offset}" if body.offset else "its log is empty"
    return f"{source} fetches from {target}: {has}"


def became_of(asked: Any, fate: str, answer: Any) -> str:
    """The end of a request's sentence; `answer` is None without a response."""
    if fate == "lost":
        return ": lost on the way."
    if fate == "refused":
        return ": nobody runs there."
    if isinstance(asked, Vote):
        if answer is None:
            return ": no answer."
        return ": granted." if answer.granted else ": refused."
    return "."


def answer(source: int, target: int, body: Any, asked: Any, core: RaftCore | None) -> str:
    """The sentence of a response; `core` is that of the responding replica at this moment."""
    if isinstance(body, VoteResult):
        return _vote_answer(source, target, body, asked, core)
    if isinstance(body, FetchResult):
        return _fetch_answer(source, target, body)
    if isinstance(body, SnapshotChunk) and not body.error:
        piece = f"bytes {body.position} to {body.position + body.length - 1} of {body.size}"
        return f"{source} sends {target} {piece} of {_snapshot(body.id.offset)}."
    if body.error:
        return f"{source} refuses {target}: {_error(body)}."
    if isinstance(body, BeginResult):
        return f"{source} accepts that {target} leads epoch {body.epoch}."
    assert isinstance(body, EndResult)
    return f"{source} has heard that {target} leaves."


def _vote_answer(
    source: int, target: int, body: VoteResult, asked: Vote, core: RaftCore | None
) -> str:
    if body.granted and asked.pre_vote:
        return f"{source} would vote for {target}: an election is worth it."
    if body.granted:
        return f"{source} gives {target} its vote in epoch {body.epoch}."
    what = "would not vote for" if asked.pre_vote else "does not vote for"
    return f"{source} {what} {target}: {_why_no_vote(source, body, asked, core)}."


def _why_no_vote(source: int, body: VoteResult, asked: Vote, core: RaftCore | None) -> str:
    if body.error:
        return _error(body)
    if core is not None and not core.log.is_covered_by(asked.last_epoch, asked.end_offset):
        return "its own log is more up to date"
    if body.leader_id == source:
        return "it leads itself"
    if body.leader_id >= 0:
        return f"it still hears the leader {body.leader_id}"
    voted = core.election.voted if core is not None else None
    if voted is not None and not asked.pre_vote:
        return f"it has voted for {'itself' if voted.id == source else voted.id}"
    return "not now"


def _fetch_answer(source: int, target: int, body: FetchResult) -> str:
    if body.error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        known = f"{body.leader_id} does" if body.leader_id >= 0 else "it knows no leader"
        return f"{source} tells {target} that it does not lead; {known} (epoch {body.epoch})."
    if body.error:
        return f"{source} refuses {target}: {_error(body)}."
    end = body.high_watermark
    mark = f"committed: all before {end}" if end > 0 else "nothing is known to be committed"
    if body.diverging is not None:
        epoch, end = body.diverging.epoch, body.diverging.offset
        return f"{source} tells {target} that their logs part: here epoch {epoch} ends at {end}."
    if body.snapshot is not None:
        start = body.snapshot.offset
        return f"{source} tells {target} that its log starts at {start}, behind a snapshot."
    if body.batches:
        first, last = body.batches[0].base_offset, body.batches[-1].last_offset
        return f"{source} sends {target} {_offsets(first, last + 1)}; {mark}."
    return f"{source} has nothing new for {target}; {mark}."


def _error(body: Any) -> str:
    if body.error == ErrorCode.FENCED_LEADER_EPOCH:
        return f"that epoch is over, this is epoch {body.epoch}"
    if body.error == ErrorCode.UNKNOWN_LEADER_EPOCH:
        return f"that epoch is unknown here, this is epoch {body.epoch}"
    return _ERRORS.get(body.error, str(body.error))


def _snapshot(end: int) -> str:
    return f"the snapshot of all before {end}"


def _offsets(first: int, end: int) -> str:
    return f"offset {first}" if end == first + 1 else f"offsets {first} to {end - 1}"


# Replicas ----------------------------------------------------------------------------------------


def changes(who: int, before: ReplicaState, now: ReplicaState) -> Iterator[tuple[str, str]]:
    """Kind and sentence of each change; starts and ends have sentences of their own."""
    leads = now.role == "leader"
    if now.role == "down":
        if now.end < before.end:
            yield "log", f"{who} has lost all from offset {now.end} on."
        return
    if (now.role, now.epoch, now.leader) != (before.role, before.epoch, before.leader):
        yield "role", role(who, now.role, now.epoch, now.leader, now.voted)
    if now.start > before.start and now.start == now.end != before.end:
        yield "log", f"{who} puts {_snapshot(now.start)} in place of its log."
    elif now.start > before.start:
        yield "log", f"{who} has a snapshot: its log starts at {now.start}."
    elif now.end > before.end:
        how = "appends" if leads else "copies"
        yield "log", f"{who} {how} {_offsets(before.end, now.end)}."
    elif now.end < before.end:
        yield "log", f"{who} cuts its log at {now.end}: what stood there was never committed."
    elif now.flushed > before.flushed:
        yield "log", f"{who} has all before {now.flushed} on disk."
    if (now.voters, now.targets) != (before.voters, before.targets):
        yield "voters", voters(who, before, now)
    if now.high_watermark > before.high_watermark:
        end = now.high_watermark
        if leads:
            yield "commit", f"{who} commits all before {end}: a majority has it on disk."
        else:
            yield "commit", f"{who} learns that all before {end} is committed."


def voters(who: int, before: ReplicaState, now: ReplicaState) -> str:
    """The new voters by the log of `who`."""
    if now.end < before.end:
        return f"{who} takes a change back, as its log is cut: {_list(now.voters)} vote."
    if now.voters == before.voters:
        if now.targets is None:
            return f"{who} knows of no further change: {_list(now.voters)} vote."
        return f"{who} knows where this is to lead: the voters are to be {_list(now.targets)}."
    came = [f"{one} votes" for one in now.voters if one not in before.voters]
    left = [f"{one} votes no more" for one in before.voters if one not in now.voters]
    says = "decides" if now.role == "leader" else "goes by its log, committed or not"
    return f"{who} {says}: {' and '.join(came + left)}. The voters: {_list(now.voters)}."


def _list(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids))


def told(change: str, error: int) -> str:
    """The sentence of the administrator's response."""
    if error:
        return f"The administrator is refused to {change}: {_ERRORS.get(error, str(error))}."
    return f"The administrator hears that its wish to {change} is committed."


def role(who: int, name: str, epoch: int, leader: int, voted: int) -> str:
    """The sentence of a new role, or a new leader or vote."""
    match name:
        case "prospective":
            return (
                f"{who} misses a leader and asks around first: the pre-vote, still epoch {epoch}."
            )
        case "candidate":
            return f"{who} stands in the new epoch {epoch} and votes for itself."
        case "leader":
            return f"{who} is elected: it leads epoch {epoch}."
        case "follower":
            return f"{who} follows {leader} in epoch {epoch}."
        case "voted":
            return f"{who} has voted for {voted} in epoch {epoch} and waits for the result."
        case "resigned":
            return f"{who} leads epoch {epoch} no more: it resigned."
        case "observer":
            known = f"follows {leader}" if leader >= 0 else "looks for a leader"
            return f"{who}, an observer, {known} in epoch {epoch}."
    return f"{who} knows no leader of epoch {epoch}."


def started(who: int, start: int, end: int, epoch: int) -> str:
    if not end and not epoch:
        return f"{who} starts with an empty disk."
    behind = f" (before {start}: a snapshot)" if start else ""
    return f"{who} starts with what its disk holds: all before {end}{behind}, and epoch {epoch}."


# What is broken ----------------------------------------------------------------------------------


def conditions(world: World, cuts: str) -> list[tuple[str, list[int]]]:
    """The current faults and their replicas; `cuts` is the text of `describe_cuts`."""
    found: list[tuple[str, list[int]]] = []
    network = world.network
    if cuts:
        found.append((cuts, []))
    if network.loss:
        found.append((f"{network.loss / 10:g} % of messages get lost", []))
    if network.duplicates:
        found.append((f"{network.duplicates / 10:g} % of messages arrive twice", []))
    if network.garbled:
        found.append((f"{network.garbled / 10:g} % of answers with records are garbled", []))
    if network.delayed:
        found.append((f"{network.delayed / 10:g} % of messages are late", []))
    held = sum(until > world.time for until in network.clogged.values())
    if held:
        found.append((f"{held} directions are clogged", []))
    if world.batches_per_fetch < world.setting.batches_per_fetch and not world.healed:
        found.append(("a fetch brings one batch at most", []))
    found += [(f"{who} has a full disk", [who]) for who in world.room]
    found += [(f"{who} has a disk that refuses writes", [who]) for who in world.write_errors]
    found += [(f"{who} has a failing disk", [who]) for who in world.failing_disks]
    found += [
        (f"{who} has a slow disk", [who])
        for who in world.slow_disks
        if who not in world.failing_disks
    ]
    found += [(f"{who} may crash anywhere", [who]) for who in world.crash_permille]
    for replica in world.replicas.values():
        who, rate = replica.id, replica.clock_rate
        if replica.core is None and replica.incarnation:
            found.append((f"{who} is down", [who]))
        if replica.paused:
            found.append((f"{who} is paused", [who]))
        if rate != 1000:
            found.append((f"{who}'s clock runs at {rate / 10:g} %", [who]))
    return found


def describe_cuts(
    everybody: Collection[int], voters: Collection[int], cuts: Collection[tuple[int, int]]
) -> str:
    """The groups that do not hear each other, or the directions that lose all messages."""
    if not cuts:
        return ""
    groups = _hearing_groups(everybody, cuts)
    if len(groups) > 1:
        alone = sorted([min(group) for group in groups if len(group) == 1])
        if len(alone) >= len(groups) - 1:
            return f"{' and '.join(map(str, alone))} {'is' if len(alone) == 1 else 'are'} cut off"
        return f"split: {_sides(groups)}"
    groups = _hearing_groups(voters, cuts)
    if len(groups) > 1:
        return f"voters split: {_sides(groups)}"
    shown = [
        f"{a}↔{b}" if (b, a) in cuts else f"{a}→{b}"
        for a, b in sorted(cuts)
        if a < b or (b, a) not in cuts
    ]
    more = f" and {len(shown) - 4} more" if len(shown) > 4 else ""
    return f"no way {' '.join(shown[:4])}{more}"


def _hearing_groups(among: Iterable[int], cuts: Collection[tuple[int, int]]) -> list[set[int]]:
    """The groups of these replicas that reach each other, directly or through others."""
    groups: list[set[int]] = []
    for who in among:
        near = [g for g in groups if any((who, o) not in cuts or (o, who) not in cuts for o in g)]
        groups = [g for g in groups if g not in near] + [{who}.union(*near)]
    return groups


def _sides(groups: list[set[int]]) -> str:
    return " | ".join(sorted([" ".join(map(str, sorted(group))) for group in groups]))
