"""`InSyncReplicas`: followers, ISR and high watermark of the partitions that this broker leads.

The high watermark is the least log end of the ISR, committed or proposed, and of the followers that
are about to join it (V7); it does not move while the ISR is smaller than min.insync.replicas. A
follower leaves the ISR when it has not caught up for `replica.lag.time.max.ms` or lacks more than
`replica.lag.max.bytes`, and joins when it has reached the high watermark and the start of the
leader epoch (V8). Only the controller changes the ISR: see `isr`.

What decides about a commit (ISR, leader epoch, min.insync.replicas, which brokers are alive) is
read together, as of the end of a batch of the metadata log (V20): while a batch that changes any
of it for a partition is being replayed, the partition is held and its high watermark does not move.
The end of the batch releases it: no request waits for the next append (V24).
"""

from __future__ import annotations

from collections import deque
from functools import partial

from kraftlog.errors import ErrorCode
from kraftlog.replication.followers import UNKNOWN, Followers
from kraftlog.replication.isr import IsrChanges
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog.metadata.loader import MetadataLoader
    from kraftlog.metadata.values import BrokerImage
    from kraftlog.replication.delayed_deletions import DelayedDeletions
    from kraftlog.replication.followers import Follower
    from kraftlog.replication.partition import Partition
    from kraftlog.replication.replicating_node import ReplicatingNode
    from kraftlog.replication.services import ReplicationConfig
    from kraftlog.types import Now

#: The most partitions that one poll checks; the others follow in the next turns.
MAX_CHECKED = 200
#: How long a member of the ISR may lag whose log directory cannot be written at present.
UNWRITABLE_LAG_MS = 1000
#: For NEW_LEADER_MS after this broker has become leader of partitions, the fetch of a follower that
#: has not fetched all of them yet waits at most SHORT_WAIT_MS.
SHORT_WAIT_MS, NEW_LEADER_MS = 10, 5_000
#: Cost of a partition's high watermark, and of followers that may join its ISR, in microseconds.
UPDATE_COST = 8


class InSyncReplicas:
    """Calls `moved(partition)` when its high watermark moved or its waiting batches must fail."""

    def __init__(
        self,
        config: ReplicationConfig,
        node: ReplicatingNode,
        metadata: MetadataLoader,
        deletions: DelayedDeletions,
        moved: Callable[[Partition], None],
    ) -> None:
        self._broker_id = config.fetch.broker_id
        self._node = node
        self._metadata = metadata
        self._max_lag_ms = config.max_lag_ms
        #: Bytes that a member of the ISR may lack; negative: any number.
        self._max_lag_bytes = config.max_lag_bytes
        self._moved = moved
        self._deletions = deletions
        self.changes = IsrChanges(self._broker_id, node, self._refused)
        #: The partitions with a follower that is not at the leader's end.
        self._lagging: dict[Partition, None] = {}
        #: The partitions with a follower outside the ISR.
        self._shrunk: dict[Partition, None] = {}
        #: The partitions that the batch of metadata being replayed has changed.
        self._held: dict[Partition, None] = {}
        #: Whether that batch has changed a broker.
        self._brokers_changed = False
        #: When `_lagging` and `_shrunk` are checked next, and what is left of the current check.
        self._check_due_ms = 0
        self._unchecked: deque[Partition] = deque()
        #: How many led partitions each follower has not fetched in their current leader epochs.
        self._unfetched: dict[int, int] = {}
        self._elected_ms = -NEW_LEADER_MS

    # Leadership ----------------------------------------------------------------------------------

    def lead(self, partition: Partition) -> None:
        """This broker has become the partition's leader, and the log is open."""
        self.resign(partition)
        if len(partition.replicas) > 1:
            self._elected_ms = self._node.now.monotonic_ms
        self.replicas_changed(partition)

    def replicas_changed(self, partition: Partition) -> None:
        """The replicas or the ISR of a led partition have changed."""
        now_ms = self._node.now.monotonic_ms
        followers = partition.followers
        if followers is None and len(partition.replicas) > 1:
            followers = Followers(partition.written_end)
            partition.set_followers(followers)
        if followers is not None:
            self._count_unfetched(partition, -1)
            brokers = [broker for broker in partition.replicas if broker != self._broker_id]
            followers.assign(brokers, partition.isr, partition.written_bytes, now_ms)
            self._count_unfetched(partition, 1)
            if not followers.all_at(partition.written_end):
                self._lagging[partition] = None
            if len(partition.isr) < len(partition.replicas):
                self._shrunk[partition] = None
            else:
                self._shrunk.pop(partition, None)
        self.update(partition)
        self._deletions.check(partition)

    def hold(self, partition: Partition) -> None:
        """The batch being replayed changes what decides about commits: wait for its end (V20)."""
        self._held[partition] = None
        partition.set_commits_at_once(False)

    def broker_changed(self, broker: BrokerImage | None) -> None:
        """A broker was registered, fenced, unfenced or removed (None): see `published`.

        If it cannot write at present, it leaves the ISR where it has not caught up soon.
        """
        self._brokers_changed = True
        if broker is not None and broker.unwritable:
            due_ms = self._node.now.monotonic_ms + UNWRITABLE_LAG_MS
            self._check_due_ms = min(self._check_due_ms, due_ms)
            self._node.poll_by(self._check_due_ms)

    def published(self) -> Iterator[int]:
        """A batch of metadata has been replayed: move high watermarks, propose who may join.

        A fenced broker no longer counts as about to join, an unfenced one may join: that concerns
        every partition with a follower outside the ISR.
        """
        changed, self._held = self._held, {}
        if self._brokers_changed:
            self._brokers_changed = False
            changed |= self._shrunk
        for partition in changed:
            self.update(partition)
            if partition in self._shrunk:
                self._expand(partition)
            yield UPDATE_COST

    def resign(self, partition: Partition) -> None:
        """Note that this broker no longer leads the partition."""
        self._count_unfetched(partition, -1)
        self._lagging.pop(partition, None)
        self._shrunk.pop(partition, None)
        partition.set_followers(None)

    def _count_unfetched(self, partition: Partition, by: int) -> None:
        if partition.followers is not None:
            for follower in partition.followers.by_broker.values():
                if follower.end == UNKNOWN:
                    count = self._unfetched.get(follower.broker_id, 0) + by
                    self._unfetched[follower.broker_id] = count

    def max_wait_ms(self, broker_id: int, max_wait_ms: int) -> int:
        """How long a fetch of a follower may wait.

        A follower has one request in flight for all its partitions. While the request waits, the
        follower cannot add partitions that it does not fetch yet, and acks=all waits for these.
        """
        is_new = self._node.now.monotonic_ms - self._elected_ms < NEW_LEADER_MS
        if is_new and self._unfetched.get(broker_id, 0) > 0:
            return min(max_wait_ms, SHORT_WAIT_MS)
        return max_wait_ms

    # Followers -----------------------------------------------------------------------------------

    def accepts(self, partition: Partition, broker_id: int, broker_epoch: int) -> bool:
        """Whether `fetched` accepts a position: only from the current process of a replica."""
        followers = partition.followers
        follower = None if followers is None else followers.by_broker.get(broker_id)
        return follower is not None and not self._is_stale(follower, broker_epoch)

    def fetched(
        self, partition: Partition, broker_id: int, broker_epoch: int, end: int, start: int
    ) -> int:
        """A follower fetches from `end` on, so it has everything before; returns an error code."""
        followers = partition.followers
        follower = None if followers is None else followers.by_broker.get(broker_id)
        if followers is None or follower is None:
            return ErrorCode.UNKNOWN_LEADER_EPOCH  # it may know of a newer assignment
        if self._is_stale(follower, broker_epoch):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if follower.end == UNKNOWN:
            self._unfetched[broker_id] -= 1
        now_ms = self._node.now.monotonic_ms
        follower.fetched(
            broker_epoch, end, start, partition.written_end, partition.written_bytes, now_ms
        )
        if end < partition.written_end:
            if partition not in self._lagging:  # its position has fallen
                self._lagging[partition] = None
                self._node.poll_by(self._check_due_ms)
        elif followers.all_at(end):
            self._lagging.pop(partition, None)
        self.update(partition)
        if partition in self._deletions:
            self._deletions.check(partition)
        if broker_id not in partition.isr:
            self._expand(partition)
        return ErrorCode.NONE

    def _refused(self, partition: Partition, isr: tuple[int, ...]) -> None:
        """The controller has refused a proposed ISR; followers wait to join with another one.

        A broker of it may have been fenced meanwhile. An ISR that has all of the refused one is
        proposed again later: the controller may know more than this broker has replayed.
        """
        self.update(partition)
        if partition in self._shrunk:
            self._expand(partition, refused=isr)

    def _expand(self, partition: Partition, refused: tuple[int, ...] = ()) -> None:
        """Propose an ISR with all followers that may join it, unless it was refused just now."""
        followers = partition.followers
        if followers is None or partition.proposed is not None or not partition.online:
            return
        joining = [
            follower.broker_id
            for follower in followers.by_broker.values()
            if self._may_join(partition, followers, follower)
        ]
        isr = (*partition.isr, *joining)
        if joining and not (refused and {*refused} <= {*isr}):
            self._propose(partition, isr)

    def _is_stale(self, follower: Follower, broker_epoch: int) -> bool:
        """Whether a fetch comes from an earlier process of the broker.

        Its newer process may have fetched before this broker has replayed the registration.
        """
        if broker_epoch == UNKNOWN:
            return False
        registered = self._metadata.image.brokers.get(follower.broker_id)
        return broker_epoch < follower.broker_epoch or (
            registered is not None and broker_epoch < registered.epoch
        )

    def _may_join(self, partition: Partition, followers: Followers, follower: Follower) -> bool:
        return (
            follower.broker_id not in partition.isr
            and follower.end >= max(partition.high_watermark, followers.epoch_start)
            and self._is_eligible(partition, follower)
        )

    def _is_eligible(self, partition: Partition, follower: Follower) -> bool:
        """Whether the controller would accept a follower.

        Its broker is unfenced, its process is the one that fetched, and the replica's directory is
        online.
        """
        image = self._metadata.image
        broker = image.brokers.get(follower.broker_id)
        if (
            broker is None
            or not broker.active
            or follower.broker_epoch not in (UNKNOWN, broker.epoch)
        ):
            return False
        assigned = image.partitions.get((partition.topic_id, partition.index))
        return assigned is None or broker.online(assigned.directory(broker.id))

    def _propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        self.changes.propose(partition, isr)
        self._node.poll_by(0)
        self.update(partition)

    # The high watermark --------------------------------------------------------------------------

    def written(self, partition: Partition, former_end: int, former_bytes: int) -> None:
        """The leader has written: followers that were at its former end lag from now on."""
        followers = partition.followers
        if followers is None:
            return
        now_ms = self._node.now.monotonic_ms
        self._lagging[partition] = None
        self._node.poll_by(self._check_due_ms)
        followers.started_to_lag(former_end, former_bytes, now_ms)
        if self._max_lag_bytes >= 0:
            self._shrink(partition, now_ms)

    def update(self, partition: Partition) -> None:
        """Move the high watermark as far as the followers allow, unless the partition is held."""
        if not partition.online or partition in self._held:
            return
        followers = partition.followers
        if partition.lacks_replicas:
            partition.set_commits_at_once(False)
            if partition.awaiting_isr:
                self._moved(partition)  # batches that wait for the ISR fail now
            return
        if followers is None:
            partition.set_commits_at_once(True)
            high_watermark = partition.written_end
        else:
            ends = (
                [follower.end for follower in followers.by_broker.values()]
                if len(partition.isr) == len(partition.replicas)
                else self._counted_ends(partition, followers)
            )
            if partition.commits_at_once == bool(ends):
                partition.set_commits_at_once(not ends)
            high_watermark = min([partition.written_end, *ends])
        if high_watermark > partition.high_watermark:
            partition.raise_high_watermark(high_watermark)
            self._moved(partition)

    def _counted_ends(self, partition: Partition, followers: Followers) -> list[int]:
        """The ends of the followers that are in the ISR, or about to join it."""
        maximal_isr = partition.maximal_isr
        now_ms = self._node.now.monotonic_ms
        return [
            follower.end
            for follower in followers.by_broker.values()
            if follower.broker_id in maximal_isr
            or (
                follower.end != UNKNOWN
                and follower.keeps_up(
                    partition.written_end, now_ms, self._lag_limit_ms(partition, follower.broker_id)
                )
                and self._is_eligible(partition, follower)
            )
        ]

    # Time ----------------------------------------------------------------------------------------

    def deadline(self) -> int | None:
        times_ms = [self._check_due_ms] if self._lagging or self._shrunk else []
        if self._unchecked:
            times_ms.append(0)
        changes_due_ms = self.changes.deadline()
        if changes_due_ms is not None:
            times_ms.append(changes_due_ms)
        return min(times_ms, default=None)

    def postpone(self, now: Now) -> None:
        self._postpone_check(now)
        self.changes.postpone(now)

    def _postpone_check(self, now: Now) -> None:
        interval_ms = max(self._max_lag_ms() // 2, 1)
        if any(broker.unwritable for broker in self._metadata.image.brokers.values()):
            interval_ms = min(interval_ms, UNWRITABLE_LAG_MS)
        self._check_due_ms = now.monotonic_ms + interval_ms

    def check_soon(self) -> None:
        """The next `poll` checks all followers."""
        self._check_due_ms = 0

    def poll(self, now: Now) -> None:
        if now.monotonic_ms >= self._check_due_ms and not self._unchecked:
            self._postpone_check(now)
            self._unchecked.extend(self._lagging | self._shrunk)
        if self._unchecked:
            self._check_some(now.monotonic_ms)
        self.changes.poll(now)

    def _check_some(self, now_ms: int) -> None:
        """Continue the check of followers that may leave or join the ISR."""
        for _ in range(min(len(self._unchecked), MAX_CHECKED)):
            partition = self._unchecked.popleft()
            if partition in self._lagging:
                self._shrink(partition, now_ms)
            if partition in self._shrunk:
                self._expand(partition)

    def _shrink(self, partition: Partition, now_ms: int) -> None:
        """Propose an ISR without the members that lag for too long or by too many bytes."""
        followers = partition.followers
        if followers is None or not partition.online:
            return
        if partition.proposed is None:
            end = partition.written_end
            limit_ms = partial(self._lag_limit_ms, partition)
            slow = followers.lagging(partition.isr, end, now_ms, limit_ms)
            if self._max_lag_bytes >= 0:
                slow += followers.too_far_behind(
                    partition.isr, partition.written_bytes, self._max_lag_bytes
                )
            if slow:
                isr = tuple([broker for broker in partition.isr if broker not in slow])
                self._propose(partition, isr)
                return
        self.update(partition)

    def _lag_limit_ms(self, partition: Partition, broker_id: int) -> int:
        """How long a follower may lag: not for long if it cannot be written at present (V18)."""
        image = self._metadata.image
        broker = image.brokers.get(broker_id)
        assigned = image.partitions.get((partition.topic_id, partition.index))
        if broker is None or assigned is None or broker.writable(assigned.directory(broker_id)):
            return self._max_lag_ms()
        return min(self._max_lag_ms(), UNWRITABLE_LAG_MS)
