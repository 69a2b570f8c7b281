"""The progress of each replica, as its leader sees it.

From it follow the high watermark (Q21), whether a majority is alive (Q11), which reads are
linearizable (P5), which observers have caught up (R4) and each replica's lag (D3, D4).
"""

from __future__ import annotations

from kraftlog.logstate.voters import ReplicaKey
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.logstate.voters import VoterHistory, VoterSet
    from kraftlog.raft.messages import Request
    from kraftlog.types import Now

UNKNOWN = -1
#: The most replicas to track, so that ever new ids cannot fill the memory; voters are never
#: forgotten.
MAX_TRACKED = 1000


class Obstacle(Value):
    """What a replica got instead of records: an error, or what it has to do first."""

    kind: str
    error: int = 0


#: Kinds of obstacles: its log has diverged; it needs a snapshot; its fetch was refused.
DIVERGED = "diverged"
NEEDS_SNAPSHOT = "snapshot"
REFUSED = "refused"


class Progress(Value):
    """One replica's progress, by its fetches in this epoch."""

    end_offset: int = UNKNOWN
    #: Monotonic time for the leader's decisions; wall-clock time for what it reports (D3, D4).
    fetched_at: int = UNKNOWN
    fetched_wall_ms: int = UNKNOWN
    caught_up_wall_ms: int = UNKNOWN
    #: The end of the leader's log at the last fetch.
    end_at_last_fetch: int = UNKNOWN
    #: Catch-up rounds (R4): the end of the log and the time of the response that began this round,
    #: and whether the last round was short enough. No round runs while the leader holds the fetch;
    #: then `round_end` is unknown.
    round_end: int = UNKNOWN
    round_at: int = UNKNOWN
    in_time: bool = False
    #: Linearizable reads (P5): the last answered fetch, the leader's event counter at that time,
    #: and the newest response that a later fetch has confirmed.
    channel: Any = None
    answered_number: int = UNKNOWN
    answered_at: int = 0
    confirmed_at: int = 0

    def note_response(self, request: Request, event: int) -> None:
        """Record the response to a fetch; of duplicate fetches only the first counts (P5).

        If the response to a late duplicate replaced a newer response here, the next fetch would
        wrongly count as proof that the late response arrived.
        """
        if request.number > self.answered_number:
            self.channel, self.answered_number = request.channel, request.number
            self.answered_at = event

    def begin_round(self, log_end: int, now: Now) -> None:
        """Begin a catch-up round (R4), unless one runs, with the response to a fetch.

        It does not begin when the fetch arrives, as the leader may hold a fetch for want of
        records. It begins even at the end of the log, so that a late next fetch is noticed.
        """
        if self.round_end < 0:
            self.round_end, self.round_at = log_end, now.monotonic_ms


class ProgressTable:
    """The progress of all voters, and of every replica that has fetched in this epoch.

    The leader needs its voters' progress at every fetch and flush, so `_of_voters` caches it for
    the set in `_voters`; None invalidates the cache.
    """

    __slots__ = (
        "_has_duplicate_ids",
        "_last_voters",
        "_of_voters",
        "_voters",
        "obstacles",
        "replicas",
    )

    def __init__(self) -> None:
        self.replicas: dict[ReplicaKey, Progress] = {}
        #: Why the last fetch of a replica got no records, until one does; for reports only.
        self.obstacles: dict[ReplicaKey, Obstacle] = {}
        self._voters: VoterSet | None = None
        #: The voters of the last lookup.
        self._last_voters: VoterSet | None = None
        self._of_voters: dict[int, Progress | None] = {}
        #: Whether several replicas have fetched with the same id; then the newest fetch decides.
        self._has_duplicate_ids = False

    def of(self, key: ReplicaKey) -> Progress:
        """The progress of a replica, which is tracked from now on."""
        progress = self.replicas.get(key)
        if progress is None:
            if len(self.replicas) >= MAX_TRACKED:
                self._forget_one()
            progress = self.replicas[key] = Progress()
            self._voters = None
            self._has_duplicate_ids = len({key.id for key in self.replicas}) < len(self.replicas)
        return progress

    def _forget_one(self) -> None:
        """Remove the observer that fetched least recently."""
        voters = self._last_voters
        observers = [
            (progress.fetched_at, key.id, key.directory_id)
            for key, progress in self.replicas.items()
            if voters is None or not voters.holds(key)
        ]
        if observers:
            _, replica_id, directory_id = min(observers)
            forgotten = ReplicaKey(replica_id, directory_id)
            del self.replicas[forgotten]
            self.obstacles.pop(forgotten, None)

    def note_obstacle(self, key: ReplicaKey, voters: VoterSet, obstacle: Obstacle) -> None:
        """Note why a replica's fetch gets no records, if the replica is a voter or is tracked."""
        if key in self.replicas or voters.holds(key):
            self.obstacles[key] = obstacle

    def note_fetch(
        self, key: ReplicaKey, offset: int, log_end: int, now: Now, round_limit_ms: int
    ) -> None:
        """Record a valid fetch: the replica has everything before `offset`."""
        progress = self._note_alive(key, now)
        if self.obstacles:
            self.obstacles.pop(key, None)
        if 0 <= progress.round_end <= offset:
            progress.in_time = now.monotonic_ms - progress.round_at < round_limit_ms
            progress.round_end = UNKNOWN
        elif progress.round_end < 0 and offset >= log_end:
            progress.in_time = True  # a round of no length
        if offset >= log_end:
            progress.caught_up_wall_ms = now.wall_ms
        elif offset >= progress.end_at_last_fetch >= 0:
            progress.caught_up_wall_ms = progress.fetched_wall_ms
        progress.end_offset = offset
        progress.end_at_last_fetch = log_end
        progress.fetched_wall_ms = now.wall_ms

    def note_snapshot_needed(self, key: ReplicaKey, now: Now) -> None:
        """Record that a replica is alive, but too far behind for records: it needs a snapshot."""
        self._note_alive(key, now).in_time = False

    def _note_alive(self, key: ReplicaKey, now: Now) -> Progress:
        progress = self.of(key)
        progress.fetched_at = now.monotonic_ms
        if self._has_duplicate_ids:
            self._voters = None
        return progress

    def of_voter(self, voters: VoterSet, replica_id: int) -> Progress | None:
        """A voter's progress by its id; the directory ids must match if both are known."""
        return self.of_voters(voters).get(replica_id)

    def of_voters(self, voters: VoterSet) -> dict[int, Progress | None]:
        """Every voter's progress by its id; of several replicas with one id, the newest counts.

        If voters are known by id alone, the progress of a replaced disk may still be there.
        """
        if self._voters is not voters:
            self._voters = self._last_voters = voters
            self._of_voters = of_voters = dict.fromkeys(voters.ids)
            for key, progress in self.replicas.items():
                if voters.holds(key):
                    newest = of_voters[key.id]
                    if newest is None or progress.fetched_at >= newest.fetched_at:
                        of_voters[key.id] = progress
        return self._of_voters

    def keys_of(self, replica_id: int, now: Now, within_ms: int) -> list[ReplicaKey]:
        """The replicas that recently fetched with this id; more than one is a mistake."""
        return [
            key
            for key, progress in self.replicas.items()
            if key.id == replica_id
            and progress.fetched_at >= 0
            and now.monotonic_ms - progress.fetched_at < within_ms
        ]

    def is_caught_up(self, key: ReplicaKey, now: Now, within_ms: int, round_limit_ms: int) -> bool:
        """Whether a replica fetches, and its last and current catch-up rounds are not long (R4)."""
        progress = self.replicas.get(key)
        if progress is None:
            return False
        lacks_some = progress.end_offset < progress.round_end
        if lacks_some and now.monotonic_ms - progress.round_at >= round_limit_ms:
            return False
        return progress.in_time and now.monotonic_ms - progress.fetched_at < within_ms

    def majority_end(
        self, history: VoterHistory, me: ReplicaKey, my_end: int, committed: int
    ) -> int:
        """The largest offset that a majority of the voters has on disk, or -1 if unknown.

        `committed` is the high watermark so far.

        An observer's fetches acknowledge nothing, as it does not wait for its disk. Therefore,
        while the record that added a voter is uncommitted, the voter counts only once it has
        fetched past that record: from there on it fetches as a voter.
        """
        voters, change = history.latest, history.latest_offset
        previous = history.committed(committed) if change >= committed else None
        my_id, ends = me.id, []
        for voter_id, progress in self.of_voters(voters).items():
            if voter_id == my_id:
                ends.append(my_end)
                continue
            end = UNKNOWN if progress is None else progress.end_offset
            if previous is not None and end <= change and previous.voter(voter_id) is None:
                end = UNKNOWN
            ends.append(end)
        return sorted(ends, reverse=True)[voters.majority - 1]

    def majority_heard_at(self, voters: VoterSet, me: ReplicaKey, since: int, now: int) -> int:
        """When a majority of the voters was last heard from; the leader itself counts as now.

        A voter that has not fetched since the election, at `since`, counts as heard from then.
        """
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
        twin.obstacles = dict(self.obstacles)
        return twin
