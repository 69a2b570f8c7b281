"""`DelayedFetches`: the Fetch requests that wait for changes of partitions.

The partitions of a fetch session report their changes to it. Its delayed fetch is completed after
the writes of the turn, so that one response has all of them. A fetch without a session is checked
as soon as one of its partitions changes.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from kraftlog.replication.partition import Partition, SessionListener
    from kraftlog.replication.replicating_node import ReplicatingNode


class DelayedFetches:
    """`wakes_followers`: a new high watermark alone completes the fetch of a follower, because
    consumers that read from the follower read up to it.
    """

    def __init__(self, node: ReplicatingNode, *, wakes_followers: bool = False) -> None:
        self._node = node
        self._wakes_followers = wakes_followers
        #: The fetches of sessions with changes, and the changed partitions.
        self._changed: dict[Any, dict[Partition, None]] = {}
        #: The delayed fetches of each follower.
        self._of_followers: dict[int, dict[Any, None]] = {}

    # Changes of a partition ----------------------------------------------------------------------

    def written(self, partition: Partition) -> None:
        """The written end has moved: followers read up to it, and consumers if that commits."""
        if partition.follower_fetches:
            self._complete(partition, partition.follower_fetches)
        if partition.follower_sessions:
            self._sessions_written(partition, partition.follower_sessions)
        if partition.commits_at_once:
            if partition.fetches:
                self._complete(partition, partition.fetches)
            if partition.consumer_sessions:
                self._sessions_written(partition, partition.consumer_sessions)

    def committed(self, partition: Partition) -> None:
        """The high watermark has moved without a write: consumers read up to it.

        Followers get it with the next records, or when their wait is over; at once only if
        consumers may read from them.
        """
        if partition.fetches:
            self._complete(partition, partition.fetches)
        if partition.consumer_sessions:
            self._sessions_changed(partition, partition.consumer_sessions)
        if partition.follower_sessions:
            self._sessions_changed(
                partition, partition.follower_sessions, wakes=self._wakes_followers
            )

    def start_moved(self, partition: Partition, *, wakes_followers: bool) -> None:
        """The log start has moved: the next response of each session reports it."""
        self._sessions_changed(partition, partition.consumer_sessions, wakes=False)
        self._sessions_changed(partition, partition.follower_sessions, wakes=wakes_followers)

    def role_changed(self, partition: Partition) -> None:
        """The role, the epoch or the whole log has changed: read all fetches again.

        Most get an error now, and need no new bytes for that.
        """
        if partition.follower_fetches or partition.fetches:
            for fetches in (partition.follower_fetches, partition.fetches):
                for fetch in list(fetches):
                    self._call(fetch, fetch.role_changed, partition)
        self._sessions_changed(partition, partition.follower_sessions)
        self._sessions_changed(partition, partition.consumer_sessions)

    def removed(self, partition: Partition) -> None:
        """The partition was removed from this broker."""
        for entry in (*partition.follower_sessions, *partition.consumer_sessions):
            fetch = entry.partition_removed()
            if fetch is not None:
                self._changed.setdefault(fetch, {})[partition] = None

    def _sessions_written(self, partition: Partition, sessions: Iterable[SessionListener]) -> None:
        for entry in sessions:
            fetch = entry.written()
            if fetch is not None:
                self._changed.setdefault(fetch, {})[partition] = None

    def _sessions_changed(
        self, partition: Partition, sessions: Iterable[SessionListener], *, wakes: bool = True
    ) -> None:
        for entry in sessions:
            fetch = entry.changed()
            if wakes and fetch is not None:
                self._changed.setdefault(fetch, {})[partition] = None

    def _complete(self, partition: Partition, fetches: dict[Any, None]) -> None:
        """Check the fetches of one partition again."""
        for fetch in list(fetches):
            self._call(fetch, fetch.try_complete, partition)

    def _call(self, fetch: Any, act: Callable[..., None], *arguments: Any) -> None:
        try:
            act(*arguments)
        except Exception as error:
            self._node.fail(fetch.pending, error)

    # Sessions ------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        return bool(self._changed)

    def complete(self) -> None:
        """Check the fetches of sessions with changes, after the writes of a turn."""
        while self._changed:
            fetch, partitions = self._changed.popitem()
            if not fetch.done:
                self._call(fetch, fetch.partitions_changed, partitions)

    # Followers -----------------------------------------------------------------------------------

    def add(self, follower: int, fetch: Any) -> None:
        """Register a delayed fetch of a follower, for `end_waits_of`."""
        self._of_followers.setdefault(follower, {})[fetch] = None

    def remove(self, follower: int, fetch: Any) -> None:
        fetches = self._of_followers.get(follower)
        if fetches is not None:
            fetches.pop(fetch, None)
            if not fetches:  # any client may claim any follower id
                del self._of_followers[follower]

    def end_waits_of(self, followers: Iterable[int]) -> None:
        """Respond to these followers at once, so that they can add a partition to their fetches."""
        for follower in followers:
            for fetch in self._of_followers.pop(follower, ()):
                self.end_wait(fetch)

    def end_wait(self, fetch: Any) -> None:
        """Respond to a delayed fetch at once, with what there is."""
        self._call(fetch, fetch.expire, self._node.now)
