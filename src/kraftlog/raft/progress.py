"""What a leader knows of each replica, and what follows from it: the high watermark (Q21), whether
a majority is still there (Q11), who is caught up (D3, D4)."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.logstate.voters import ReplicaKey, VoterSet
    from kraftlog.types import Now

UNKNOWN = -1


class Progress(Value):
    """One replica, by its fetches in this epoch."""

    end_offset: int = UNKNOWN
    #: Monotonic, for the leader's own decisions; wall clock, to be shown (D3, D4).
    fetched_at: int = UNKNOWN
    fetched_wall_ms: int = UNKNOWN
    caught_up_wall_ms: int = UNKNOWN
    #: The log's end, and the time, at the fetch before.
    end_at_last_fetch: int = UNKNOWN
    #: Reads (P5): the fetch that was answered last, when in the leader's count of events, and the
    #: newest answer that a later fetch is known to have followed.
    channel: Any = None
    answered_number: int = UNKNOWN
    answered_at: int = 0
    confirmed_at: int = 0


class ProgressTable:
    """All replicas that have fetched in this epoch, and all voters."""

    __slots__ = ("replicas",)

    def __init__(self) -> None:
        self.replicas: dict[ReplicaKey, Progress] = {}

    def of(self, key: ReplicaKey) -> Progress:
        known = self.replicas.get(key)
        if known is None:
            known = self.replicas[key] = Progress()
        return known

    def fetched(self, key: ReplicaKey, offset: int, log_end: int, now: Now) -> None:
        """A valid fetch: the replica holds everything before `offset`."""
        progress = self.of(key)
        if offset >= log_end:
            progress.caught_up_wall_ms = now.wall_ms
        elif offset >= progress.end_at_last_fetch >= 0:
            progress.caught_up_wall_ms = progress.fetched_wall_ms
        progress.end_offset = offset
        progress.end_at_last_fetch = log_end
        progress.fetched_at = now.monotonic_ms
        progress.fetched_wall_ms = now.wall_ms

    def of_voter(self, voters: VoterSet, replica_id: int) -> Progress | None:
        """A voter's progress, by whichever key it fetches with."""
        for key, progress in self.replicas.items():
            if key.id == replica_id and voters.holds(key):
                return progress
        return None

    def majority_end(self, voters: VoterSet, me: ReplicaKey, my_end: int) -> int:
        """The largest offset that a majority of the voters has reached; -1: unknown."""
        ends = []
        for voter_id in voters.ids:
            if voter_id == me.id:
                ends.append(my_end)
            else:
                progress = self.of_voter(voters, voter_id)
                ends.append(progress.end_offset if progress else UNKNOWN)
        return sorted(ends, reverse=True)[voters.majority - 1]

    def majority_heard_at(self, voters: VoterSet, me: ReplicaKey, since: int, now: int) -> int:
        """When a majority of the voters was last heard of; the leader hears itself now."""
        times = []
        for voter_id in voters.ids:
            if voter_id == me.id:
                times.append(now)
            else:
                progress = self.of_voter(voters, voter_id)
                times.append(max(progress.fetched_at if progress else since, since))
        return sorted(times, reverse=True)[voters.majority - 1]

    def copy(self) -> ProgressTable:
        twin = ProgressTable()
        twin.replicas = {key: progress.replace() for key, progress in self.replicas.items()}
        return twin
