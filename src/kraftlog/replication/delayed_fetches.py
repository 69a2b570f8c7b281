"""`DelayedFetches`: the Fetch requests that wait for news of partitions.

A fetch in a session waits with its session: its partitions report their changes, and it is
completed after the writes of the turn, so that one response has all that the turn has brought. A
fetch without a session is completed as soon as one of its partitions changes.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from kraftlog.replication.partition import Partition, SessionPartition
    from kraftlog.types import Now


class DelayedFetches:
    """`fail(slot, error)` fails a pending response after an internal error.

    `tells_followers`: a new high watermark alone soon ends the wait of a follower, whose consumers
    read up to it.
    """

    def __init__(
        self,
        clock: Callable[[], Now],
        fail: Callable[[Any, Exception], None],
        *,
        tells_followers: bool = False,
    ) -> None:
        self._clock = clock
        self._fail = fail
        self._tells_followers = tells_followers
        #: The fetches of sessions with news, and in which partitions.
        self._changed: dict[Any, dict[Partition, None]] = {}
        #: The fetches of each follower.
        self._of_followers: dict[int, dict[Any, None]] = {}

    # Changes of a partition ----------------------------------------------------------------------

    def written(self, partition: Partition) -> None:
        """Followers read up to the written end."""
        if partition.follower_fetches:
            self._complete(partition, partition.follower_fetches)
        if partition.follower_sessions:
            self._sessions_changed(partition, partition.follower_sessions)

    def committed(self, partition: Partition) -> None:
        """Consumers read up to the high watermark.

        Followers learn of it with the next records, or when their wait is over, unless consumers
        may read from them.
        """
        if partition.fetches:
            self._complete(partition, partition.fetches)
        if partition.consumer_sessions:
            self._sessions_changed(partition, partition.consumer_sessions)
        if partition.follower_sessions and not partition.commits_at_once:
            self._sessions_changed(
                partition, partition.follower_sessions, wakes=self._tells_followers
            )

    def start_moved(self, partition: Partition, *, wakes_followers: bool) -> None:
        """The next response to a reader has the log start offset."""
        self._sessions_changed(partition, partition.consumer_sessions, wakes=False)
        self._sessions_changed(partition, partition.follower_sessions, wakes=wakes_followers)

    def role_changed(self, partition: Partition) -> None:
        """All that wait for the partition get another response, or an error."""
        if partition.follower_fetches or partition.fetches:
            self._complete(partition, partition.follower_fetches)
            self._complete(partition, partition.fetches)
        if partition.follower_sessions or partition.consumer_sessions:
            self._sessions_changed(partition, partition.follower_sessions)
            self._sessions_changed(partition, partition.consumer_sessions)

    def removed(self, partition: Partition) -> None:
        """The partition is not on this broker any more."""
        for known in (*partition.follower_sessions, *partition.consumer_sessions):
            fetch = known.partition_removed()
            if fetch is not None:
                self._changed.setdefault(fetch, {})[partition] = None

    def _sessions_changed(
        self, partition: Partition, sessions: Iterable[SessionPartition], *, wakes: bool = True
    ) -> None:
        for known in sessions:
            fetch = known.changed()
            if wakes and fetch is not None:
                self._changed.setdefault(fetch, {})[partition] = None

    def _complete(self, partition: Partition, fetches: dict[Any, None]) -> None:
        """Check the fetches of one partition again."""
        for fetch in list(fetches):
            try:
                fetch.try_complete(partition)
            except Exception as error:
                self._fail(fetch.slot, error)

    # Sessions ------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        return bool(self._changed)

    def complete(self) -> None:
        """Check the fetches of sessions with news, after the writes of a turn."""
        while self._changed:
            fetch, partitions = self._changed.popitem()
            if not fetch.done:
                try:
                    fetch.partitions_changed(partitions)
                except Exception as error:
                    self._fail(fetch.slot, error)

    # Followers -----------------------------------------------------------------------------------

    def add(self, follower: int, fetch: Any) -> None:
        """A fetch of a follower waits."""
        self._of_followers.setdefault(follower, {})[fetch] = None

    def remove(self, follower: int, fetch: Any) -> None:
        fetches = self._of_followers.get(follower)
        if fetches is not None:
            fetches.pop(fetch, None)
            if not fetches:  # any client may name any follower
                del self._of_followers[follower]

    def end_waits_of(self, followers: Iterable[int]) -> None:
        """Respond to the fetches of followers at once: they have another partition to fetch."""
        for follower in followers:
            for fetch in self._of_followers.pop(follower, ()):
                try:
                    fetch.expire(self._clock())
                except Exception as error:
                    self._fail(fetch.slot, error)
