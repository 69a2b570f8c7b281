"""`ReplicaFetchers`: fetches the partitions that this broker follows, and appends them (V6, V13).

A follower appends its leader's batches, with the leader's offsets and epochs. Where the two logs
diverge, the leader's response names the epoch and its end; the follower truncates there, repeatedly
if needed, and never by the high watermark alone. Records are added to the turn's appends;
truncations are effects whose outcome returns as `LogTruncated`.
"""

from __future__ import annotations

from kraftlog.effects import (
    LogLine,
    MoveLogStart,
    ResponseReceived,
    SendRequest,
    TruncatePartition,
)
from kraftlog.errors import ErrorCode, error_name
from kraftlog.replication.fetched_batches import check_fetched, first_offset
from kraftlog.replication.fetcher import Fetcher
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey

if TYPE_CHECKING:
    from kraftlog.effects import RequestReport
    from kraftlog.replication.fetcher import FetchConfig, FollowedPartition
    from kraftlog.replication.partition import Partition
    from kraftlog.replication.replica_manager import ReplicaManager
    from kraftlog.replication.replicating_node import ReplicatingNode
    from kraftlog.types import Buffer, Now
    from kraftlog.wire.messages.fetch import PartitionData

#: The channels to leaders are named by this and the number of the fetcher.
CHANNEL_PREFIX = "replication-"


class ReplicaFetchers:
    """A fetcher for each leader, or several (`num.replica.fetchers`)."""

    def __init__(
        self, config: FetchConfig, node: ReplicatingNode, replicas: ReplicaManager
    ) -> None:
        self._config = config
        self._node = node
        self._replicas = replicas
        self._quota = replicas.quotas.follower
        #: By leader id, and the number of the fetcher among those for this leader.
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        #: The fetcher of each followed partition.
        self._by_partition: dict[Partition, Fetcher] = {}
        self._requests_sent = 0
        #: The fetchers with a request in flight, by its number.
        self._in_flight: dict[int, Fetcher] = {}

    # Partitions ----------------------------------------------------------------------------------

    def follow(self, partition: Partition, leader_id: int) -> None:
        """Fetch a partition from a leader, from the end of this broker's log on."""
        self.stop(partition)
        key = leader_id, _fetcher_number(partition) % self._config.fetchers
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = Fetcher(leader_id, self._config, self._node)
        self._by_partition[partition] = fetcher
        fetcher.add(partition)

    def stop(self, partition: Partition) -> None:
        """Stop fetching a partition, if it is fetched: its leader changed, or its log is gone."""
        fetcher = self._by_partition.pop(partition, None)
        if fetcher is not None:
            fetcher.remove((partition.topic_id, partition.index))

    def is_following(self, partition: Partition) -> bool:
        return partition in self._by_partition

    def _throttle_ms(self, partition: Partition) -> int:
        """How long to throttle a partition: not at all unless it lacks committed records."""
        if partition.lag and self._quota.applies_to(partition):
            return self._quota.throttle_ms()
        return 0

    # Requests ------------------------------------------------------------------------------------

    def deadline(self) -> int | None:
        deadlines = [fetcher.deadline() for fetcher in self._fetchers.values()]
        return min([due_ms for due_ms in deadlines if due_ms is not None], default=None)

    def poll(self, now: Now) -> None:
        for fetcher in self._fetchers.values():
            fetcher.poll(now)

    def has_work(self, now: Now) -> bool:
        """Whether a request can leave."""
        return any(fetcher.can_send(now) for fetcher in self._fetchers.values())

    def send(self, now: Now) -> None:
        """Send the requests that can leave, at the end of a turn."""
        for key, fetcher in list(self._fetchers.items()):
            if not fetcher.is_needed:
                del self._fetchers[key]
            elif fetcher.can_send(now):
                if self._quota.is_limited:
                    fetcher.throttle(self._throttle_ms, now)
                    self._node.poll_by(fetcher.deadline() or now.monotonic_ms)
                    if not fetcher.can_send(now):
                        continue
                self._send(key, fetcher, now)

    def _send(self, key: tuple[int, int], fetcher: Fetcher, now: Now) -> None:
        address = self._replicas.address_of(fetcher.leader_id)
        if address is None:
            fetcher.failed(now)
            self._node.poll_by(now.monotonic_ms)
            return
        request = fetcher.request()
        self._requests_sent += 1
        fetcher.in_flight = self._requests_sent
        self._in_flight[self._requests_sent] = fetcher
        self._node.send_fetch(
            SendRequest(
                channel=f"{CHANNEL_PREFIX}{key[1]}",
                peer=fetcher.leader_id,
                host=address[0],
                port=address[1],
                number=self._requests_sent,
                api_key=ApiKey.FETCH,
                version=APIS[ApiKey.FETCH].last,
                request=request,
                timeout_ms=self._config.timeout_ms,
                needs_new_connection=fetcher.take_reconnect(),
            )
        )

    def broker_changed(self, broker_id: int, now: Now, *, is_new_process: bool) -> None:
        """A broker's registration has changed: end the backoff of the fetchers that fetch from it.

        A new process of the broker never responds to a request to its former one, whose connection
        may still look open if its machine has lost power.
        """
        for (leader_id, _), fetcher in self._fetchers.items():
            if leader_id == broker_id:
                if is_new_process and fetcher.in_flight is not None:
                    del self._in_flight[fetcher.in_flight]
                    fetcher.failed(now)
                fetcher.leader_moved(is_new_process=is_new_process)

    def leader_is_down(self, broker_id: int, now: Now) -> None:
        """A broker's process has ended: its partitions wait for new leaders, or for its return.

        Repeated fetches would list all those partitions, and only delay the replay of new leaders.
        """
        for (leader_id, _), fetcher in self._fetchers.items():
            if leader_id == broker_id:
                fetcher.leader_is_down(now)

    # Responses -----------------------------------------------------------------------------------

    def handle(self, report: RequestReport, now: Now) -> None:
        fetcher = self._in_flight.pop(report.number, None)
        if fetcher is None:
            return
        if not isinstance(report, ResponseReceived):
            fetcher.failed(now)
            return
        for followed, data in fetcher.take_response(report.response, now):
            if data.error_code:
                self._refused(fetcher, followed, data, now)
            elif data.diverging_epoch.end_offset >= 0:
                self._diverged(fetcher, followed, data, now)
            else:
                self._take_records(fetcher, followed, data, now)

    def _take_records(
        self, fetcher: Fetcher, followed: FollowedPartition, data: PartitionData, now: Now
    ) -> None:
        """Append the fetched batches, and follow the leader's high watermark and log start."""
        partition = followed.partition
        partition.note_leader_offsets(data.high_watermark, max(data.log_start_offset, 0))
        if not data.records:
            followed.backoff_ms = 0
            self.follow_leader(partition)
            return
        base = first_offset(data.records)
        if 0 <= base < partition.end <= max(partition.start, partition.leader_start):
            # The leader's log starts inside a batch, and all that this log may have is before that:
            # start with that batch.
            followed.held_records = bytes(data.records)
            self._restart(fetcher, followed, base)
        else:
            self._append(fetcher, followed, data.records, now)

    def _append(
        self, fetcher: Fetcher, followed: FollowedPartition, records: Buffer, now: Now
    ) -> None:
        partition = followed.partition
        runs, error = check_fetched(records, partition.end, partition.leader_epoch)
        for run in runs:
            partition.append_fetched(run, self._replicas.turn)
        if runs:
            fetcher.appended(followed)
            if self._quota.applies_to(partition):
                self._quota.record(len(records))
        elif error is None:  # only part of a batch: the next response has all of it
            fetcher.fetch_again(followed)
        if error is not None:
            where = f"fetched from broker {fetcher.leader_id} at offset {partition.end}"
            self._report(followed, f"{where}: {error.what}")
            if not runs:
                fetcher.delay(followed, now)

    def _report(self, followed: FollowedPartition, problem: str) -> None:
        """Log a problem of a partition, unless it was the last one logged."""
        topic, index = followed.partition.log
        if problem != followed.last_problem:
            followed.last_problem = problem
            self._node.emit(LogLine(f"{topic}-{index}: {problem}"))

    def follow_leader(self, partition: Partition) -> None:
        """Follow the leader's high watermark and log start, as far as this log is written."""
        if partition.follow_high_watermark():
            self._replicas.delayed_fetches.committed(partition)
        if partition in self._replicas.lost_replicas.incomplete and not partition.lag:
            self._replicas.lost_replicas.caught_up(partition)
        start = min(partition.leader_start, partition.written_end)
        if start > partition.start:
            partition.start_moved(start)
            self._node.emit(MoveLogStart(partition.log, start))
            fetcher = self._by_partition.get(partition)
            if fetcher is not None:  # the leader's DeleteRecords waits for it
                fetcher.start_moved((partition.topic_id, partition.index))

    def _refused(
        self, fetcher: Fetcher, followed: FollowedPartition, data: PartitionData, now: Now
    ) -> None:
        partition = followed.partition
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            leader_end, leader_start = data.diverging_epoch.end_offset, data.log_start_offset
            if 0 <= leader_end < partition.end:
                self._truncate(fetcher, followed, leader_end, "the leader's log ends there")
                return
            if leader_start > partition.end:
                self._restart(fetcher, followed, leader_start)
                return
            code = error_name(data.error_code)
            where = f"broker {fetcher.leader_id} refuses offset {partition.end}"
            self._report(followed, f"{where}: {code}")
        fetcher.delay(followed, now)

    # Truncation ----------------------------------------------------------------------------------

    def _diverged(
        self, fetcher: Fetcher, followed: FollowedPartition, data: PartitionData, now: Now
    ) -> None:
        """Truncate to where the two logs may agree; the next response shows whether they do."""
        epoch, end = data.diverging_epoch.epoch, data.diverging_epoch.end_offset
        _, own_end = self._node.logs.end_of_epoch(followed.partition.log, epoch)
        if own_end >= 0:
            end = min(end, own_end)
        why = f"this log diverges from the leader's log in epoch {epoch}"
        if end >= followed.partition.end:  # no leader with a sound log sends this: truncate nothing
            self._report(followed, f"broker {fetcher.leader_id}: {why}, which ends at {end}")
            fetcher.delay(followed, now)
            return
        self._truncate(fetcher, followed, end, why)

    def _truncate(
        self, fetcher: Fetcher, followed: FollowedPartition, offset: int, why: str
    ) -> None:
        partition = followed.partition
        if offset < partition.high_watermark:
            topic, index = partition.log
            self._node.emit(
                LogLine(
                    f"{topic}-{index}: truncating to offset {offset}, below the high watermark "
                    f"{partition.high_watermark}: {why}; committed records are lost"
                )
            )
        self._wait_for_truncation(fetcher, followed, offset, restarts=False)

    def _restart(self, fetcher: Fetcher, followed: FollowedPartition, offset: int) -> None:
        """Restart an empty log, or one whose records the leader has all deleted, at an offset."""
        self._wait_for_truncation(fetcher, followed, offset, restarts=True)

    def _wait_for_truncation(
        self, fetcher: Fetcher, followed: FollowedPartition, offset: int, *, restarts: bool
    ) -> None:
        partition = followed.partition
        fetcher.pause(followed)
        partition.begin_truncation()
        self._node.emit(TruncatePartition(partition.log, partition.topic_id, offset, restarts))

    def truncated(self, partition: Partition, now: Now) -> None:
        """The log of a followed partition is truncated: fetch from its new end."""
        fetcher = self._by_partition[partition]
        followed = fetcher.followed[partition.topic_id, partition.index]
        fetcher.resume(followed.key)
        if followed.held_records:
            held, followed.held_records = followed.held_records, b""
            self._append(fetcher, followed, held, now)

    def written(self, partition: Partition) -> None:
        """Fetched batches are written: reset the backoff, follow the leader's high watermark."""
        fetcher = self._by_partition.get(partition)
        if fetcher is not None:
            fetcher.followed[partition.topic_id, partition.index].backoff_ms = 0
        self.follow_leader(partition)

    def write_failed(self, partition: Partition, now: Now) -> None:
        """Fetched batches could not be written: try again later."""
        fetcher = self._by_partition.get(partition)
        if fetcher is not None:
            fetcher.delay(fetcher.followed[partition.topic_id, partition.index], now)


def _fetcher_number(partition: Partition) -> int:
    """A number that spreads partitions over fetchers, the same in every process."""
    return int.from_bytes(partition.topic_id[-4:], "big") + partition.index
