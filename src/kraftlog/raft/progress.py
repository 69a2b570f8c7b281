"""What a leader knows of each replica, and what follows from it: the high watermark (Q21), whether
a majority is still there (Q11), who is caught up (D3, D4)."""

from __future__ import annotations

from kraftlog.logstate.voters import ReplicaKey
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.logstate.voters import VoterHistory, VoterSet
    from kraftlog.raft.messages import Request
    from kraftlog.types import Now

UNKNOWN = -1
#: So many replicas are remembered, and all voters: ever new names fill no memory.
MOST_REMEMBERED = 1000


class Progress(Value):
    """One replica, by its fetches in this epoch."""

    end_offset: int = UNKNOWN
    #: Monotonic, for the leader's own decisions; wall clock, to be shown (D3, D4).
    fetched_at: int = UNKNOWN
    fetched_wall_ms: int = UNKNOWN
    caught_up_wall_ms: int = UNKNOWN
    #: The log's end, and the time, at the fetch before.
    end_at_last_fetch: int = UNKNOWN
    #: Rounds (R4): where the log ended, and when, at the fetch that began this round; whether the
    #: last round was short enough.
    round_end: int = UNKNOWN
    round_at: int = UNKNOWN
    in_time: bool = False
    #: Reads (P5): the fetch that was answered last, when in the leader's count of events, and the
    #: newest answer that a later fetch is known to have followed.
    channel: Any = None
    answered_number: int = UNKNOWN
    answered_at: int = 0
    confirmed_at: int = 0

    def note_answer(self, asked: Request, event: int) -> None:
        """P5: of copies only the first counts.

        A copy that comes late must not take the place of what was answered after it: the next
        fetch of that time would seem to follow this answer.
        """
        if asked.number > self.answered_number:
            self.channel, self.answered_number = asked.channel, asked.number
            self.answered_at = event


class ProgressTable:
    """All replicas that have fetched in this epoch, and all voters.

    A leader asks at every fetch and every flush how far its voters are, so they are kept at hand
    for the set in force: `_of_voters`, made anew when `_voters` is another set or None.
    """

    __slots__ = ("_has_twins", "_last_voters", "_of_voters", "_voters", "replicas")

    def __init__(self) -> None:
        self.replicas: dict[ReplicaKey, Progress] = {}
        self._voters: VoterSet | None = None
        #: Those that were asked for last.
        self._last_voters: VoterSet | None = None
        self._of_voters: dict[int, Progress | None] = {}
        #: Whether several replicas have fetched under one id, so that the newest fetch decides.
        self._has_twins = False

    def of(self, key: ReplicaKey) -> Progress:
        known = self.replicas.get(key)
        if known is None:
            if len(self.replicas) >= MOST_REMEMBERED:
                self._forget_one()
            known = self.replicas[key] = Progress()
            self._voters = None
            self._has_twins = len({key.id for key in self.replicas}) < len(self.replicas)
        return known

    def _forget_one(self) -> None:
        """The observer that was not heard of for longest."""
        voters = self._last_voters
        observers = [
            (progress.fetched_at, key.id, key.directory_id)
            for key, progress in self.replicas.items()
            if voters is None or not voters.holds(key)
        ]
        if observers:
            _, replica_id, directory_id = min(observers)
            del self.replicas[ReplicaKey(replica_id, directory_id)]

    def fetched(
        self, key: ReplicaKey, offset: int, log_end: int, now: Now, round_limit_ms: int
    ) -> None:
        """A valid fetch: the replica holds everything before `offset`."""
        progress = self._heard(key, now)
        if progress.round_end < 0 or offset >= progress.round_end:
            took = now.monotonic_ms - progress.round_at
            progress.in_time = progress.round_end >= 0 and took < round_limit_ms
            progress.round_end, progress.round_at = log_end, now.monotonic_ms
        if offset >= log_end:
            progress.caught_up_wall_ms = now.wall_ms
        elif offset >= progress.end_at_last_fetch >= 0:
            progress.caught_up_wall_ms = progress.fetched_wall_ms
        progress.end_offset = offset
        progress.end_at_last_fetch = log_end
        progress.fetched_wall_ms = now.wall_ms

    def heard(self, key: ReplicaKey, now: Now) -> None:
        """A sign of life that says nothing of the log."""
        self._heard(key, now)

    def _heard(self, key: ReplicaKey, now: Now) -> Progress:
        progress = self.of(key)
        progress.fetched_at = now.monotonic_ms
        if self._has_twins:
            self._voters = None
        return progress

    def of_voter(self, voters: VoterSet, replica_id: int) -> Progress | None:
        """A voter's progress, by whichever key it fetches with now."""
        return self.of_voters(voters).get(replica_id)

    def of_voters(self, voters: VoterSet) -> dict[int, Progress | None]:
        """Every voter's progress by its id.

        Where the voters are known by id alone, a replaced disk leaves the progress of the old one.
        """
        if self._voters is not voters:
            self._voters = self._last_voters = voters
            self._of_voters = found = dict.fromkeys(voters.ids)
            for key, progress in self.replicas.items():
                if voters.holds(key):
                    before = found[key.id]
                    if before is None or progress.fetched_at >= before.fetched_at:
                        found[key.id] = progress
        return self._of_voters

    def keys_of(self, replica_id: int, now: Now, within_ms: int) -> list[ReplicaKey]:
        """The replicas that have lately fetched under this id: more than one is a mix-up."""
        return [
            key
            for key, progress in self.replicas.items()
            if key.id == replica_id
            and progress.fetched_at >= 0
            and now.monotonic_ms - progress.fetched_at < within_ms
        ]

    def is_caught_up(self, key: ReplicaKey, now: Now, within_ms: int) -> bool:
        """R4: its last round was short, and it is still there."""
        progress = self.replicas.get(key)
        return (
            progress is not None
            and progress.in_time
            and now.monotonic_ms - progress.fetched_at < within_ms
        )

    def majority_end(self, history: VoterHistory, me: ReplicaKey, my_end: int, mark: int) -> int:
        """The largest offset that a majority of the voters has on disk; -1: unknown.

        An observer acknowledges nothing: it fetches on before its disk is done. So a newcomer
        counts only once it has fetched beyond the record that made it a voter, still uncommitted
        as it lies behind the high watermark `mark`; from then on it knows.
        """
        voters, change = history.latest, history.latest_offset
        before = history.committed(mark) if change >= mark else None
        my_id, ends = me.id, []
        for voter_id, progress in self.of_voters(voters).items():
            if voter_id == my_id:
                ends.append(my_end)
                continue
            end = UNKNOWN if progress is None else progress.end_offset
            if before is not None and end <= change and before.voter(voter_id) is None:
                end = UNKNOWN
            ends.append(end)
        return sorted(ends, reverse=True)[voters.majority - 1]

    def majority_heard_at(self, voters: VoterSet, me: ReplicaKey, since: int, now: int) -> int:
        """When a majority of the voters was last heard of; the leader hears itself now."""
        times = []
        for voter_id, progress in self.of_voters(voters).items():
            if voter_id == me.id:
                times.append(now)
            else:
                times.append(since if progress is None else max(progress.fetched_at, since))
        return sorted(times, reverse=True)[voters.majority - 1]

    def copy(self) -> ProgressTable:
        twin = ProgressTable()
        twin.replicas = {key: progress.replace() for key, progress in self.replicas.items()}
        return twin
