"""A consumer of all partitions, from their beginning, one fetch in flight to each broker.

Each fetch names the epoch of the last record of a partition (KIP-320), so that the consumer notices
when the partition was removed and another one added (V11). If its position no longer exists, for
that reason or because records were deleted, the consumer continues at the start of the log. With a
rack it fetches from the follower that a leader names (KIP-392), for a while or until that fails;
then it fetches from the leader again. Half of the consumers have fetch sessions (KIP-227).
"""

from __future__ import annotations

from kraftlog.errors import RETRIABLE, ErrorCode
from kraftlog.records.header import CONTROL_BIT
from kraftlog.records.reader import read_records
from kraftlog.records.walk import walk
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest
from kraftlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kraftlog_simulator.cluster.clients import RETRY_MS, Client
from kraftlog_simulator.cluster.fetch_session import FetchSessionHandler
from kraftlog_simulator.rng import Rng
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.metadata.values import PartitionKey
    from kraftlog.types import Now
    from kraftlog_simulator.cluster.clients import ClientWorld

#: The longest wait of a fetch at the broker.
WAIT_MS = 500
MAX_BYTES = 1 << 20
#: The timestamp by which ListOffsets returns the first offset.
EARLIEST = -2
#: How long a consumer fetches from a follower that a leader has named.
PREFERRED_MS = 2000


class Consumer(Client):
    """`positions` has the next offset of each partition, `epochs` the epoch of its last record."""

    def __init__(self, world: ClientWorld, number: int) -> None:
        super().__init__(world, number)
        self.positions: dict[PartitionKey, int] = {}
        self.epochs: dict[PartitionKey, int] = {}
        #: The partitions whose position is not in the log: they continue at its start.
        self._out_of_range: set[PartitionKey] = set()
        #: The brokers with a fetch in flight, and the partitions in all these fetches.
        self._in_flight: set[int] = set()
        self._fetching: set[PartitionKey] = set()
        self._retry_at_ms: dict[PartitionKey, int] = {}
        #: Some consumers fetch few batches at once, so that they have more positions.
        self._max_bytes = self.rng.pick([MAX_BYTES, 150])
        self._wait_ms = self.rng.pick([WAIT_MS, 100])
        self._rack = world.setting.rack_of(number)
        #: The followers that leaders have named, and until when they are fetched from.
        self._preferred: dict[PartitionKey, tuple[int, int]] = {}
        #: Whether it wants fetch sessions, and the one with each broker.
        self._wants_sessions = Rng(world.seed, f"fetch sessions of {self.name}").below(2) == 1
        self._sessions: dict[int, FetchSessionHandler] = {}

    def deadline(self) -> int | None:
        now_ms = self.world.time
        return min([at_ms for at_ms in self._retry_at_ms.values() if at_ms > now_ms], default=None)

    def work(self, now: Now) -> None:
        due: dict[int, list[PartitionKey]] = {}
        for key in self.world.keys:
            if key in self._fetching or self._retry_at_ms.get(key, 0) > now.monotonic_ms:
                continue
            if key in self._out_of_range:
                self._list_start(key, now)
                continue
            broker = self._replica_of(key, now)
            if broker >= 0 and broker not in self._in_flight:
                due.setdefault(broker, []).append(key)
        for broker, keys in due.items():
            self._fetch(broker, keys)

    def _replica_of(self, key: PartitionKey, now: Now) -> int:
        """The broker to fetch from: the follower that the leader named, or the leader."""
        leader = self.leader_of(key, now)
        preferred, until_ms = self._preferred.get(key, (-1, 0))
        return preferred if leader >= 0 and now.monotonic_ms < until_ms else leader

    def _fetch(self, broker: int, keys: list[PartitionKey]) -> None:
        positions = {key: self.positions.setdefault(key, 0) for key in keys}
        wanted = {
            key: FetchPartition(
                partition=key[1],
                current_leader_epoch=self.leaders[key][1],
                fetch_offset=position,
                last_fetched_epoch=self.epochs.get(key, -1),
                partition_max_bytes=self._max_bytes,
            )
            for key, position in positions.items()
        }
        session = self._sessions.get(broker)
        if session is None:
            session = FetchSessionHandler(self, is_wanted=self._wants_sessions)
            self._sessions[broker] = session
        request = FetchRequest(
            max_wait_ms=self._wait_ms,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            rack_id=self._rack,
            **session.request(wanted),
        )
        if not session.is_full:
            self.world.saw("incremental fetch")
        self._in_flight.add(broker)
        self._fetching.update(positions)
        self.send_request(
            broker,
            ApiKey.FETCH,
            request,
            self._wait_ms,
            lambda response, now: self._on_response(broker, positions, response, now),
        )

    def _on_response(
        self, broker: int, positions: dict[PartitionKey, int], response: Any, now: Now
    ) -> None:
        self._in_flight.discard(broker)
        self._fetching.difference_update(positions)
        session = self._sessions[broker]
        if response is None or response.error_code:
            code = ErrorCode.NONE if response is None else response.error_code
            if code:
                self.world.count_response("fetch session", code)
            session.failed(code)
            for key in positions:
                self._preferred.pop(key, None)
                self._retry_at_ms[key] = now.monotonic_ms + RETRY_MS
            self.refresh_soon(now)
            return
        session.responded(response)
        for topic in response.responses:
            for partition in topic.partitions:
                key = topic.topic_id, partition.partition_index
                self._on_partition(key, broker, positions[key], partition, now)

    def _on_partition(
        self, key: PartitionKey, broker: int, position: int, partition: Any, now: Now
    ) -> None:
        code = partition.error_code
        self.world.count_response("fetch", code)
        is_out_of_range = (
            code == ErrorCode.OFFSET_OUT_OF_RANGE or partition.diverging_epoch.end_offset >= 0
        )
        if code or is_out_of_range:
            by_follower = self._preferred.pop(key, (-1, 0))[0] == broker
            self._retry_at_ms[key] = now.monotonic_ms + RETRY_MS
            if is_out_of_range and not by_follower:
                self.world.check_must_restart(self, key, position, self.epochs.get(key, -1))
                self._out_of_range.add(key)
            elif code not in RETRIABLE and not is_out_of_range:
                raise Violation("consumer", f"{self} got error {code} at {position} of {key}")
            leader = partition.current_leader
            self.learn(key, leader.leader_id, leader.leader_epoch)
            self.refresh_soon(now)
            return
        if partition.preferred_read_replica >= 0:
            self.world.saw("follower named to a consumer")
            until_ms = now.monotonic_ms + PREFERRED_MS
            self._preferred[key] = partition.preferred_read_replica, until_ms
            return
        if self._preferred.get(key, (-1, 0))[0] == broker:
            self.world.saw("fetch served by a follower")
        self._take_records(key, position, partition)

    def _take_records(self, key: PartitionKey, position: int, partition: Any) -> None:
        records = bytes(partition.records or b"")
        values: list[tuple[int, int]] = []
        following = position
        world, epoch = self.world, self.epochs.get(key, -1)
        for batch_position, fields in walk(records, may_end_in_batch=True):
            base_offset, _, batch_epoch, _, _, attributes, last_offset_delta, *_ = fields
            following = max(following, base_offset + last_offset_delta + 1)
            is_other_log = world.first_epoch(key, batch_epoch) != world.first_epoch(key, epoch)
            if is_other_log and epoch >= 0 and position > world.deleted_before(key):
                raise Violation(
                    "consumer",
                    f"{self} got records of epoch {batch_epoch} of {key}, from {base_offset} on, "
                    f"after those of epoch {epoch}: they are of different partitions",
                )
            epoch = batch_epoch
            if not attributes & CONTROL_BIT:
                values += [
                    (record.offset, int(record.value or b""))
                    for record in read_records(records, batch_position)
                    if record.offset >= position
                ]
        if following > max(position, partition.high_watermark):
            raise Violation(
                "consumer",
                f"{self} got records of {key} up to {following}, beyond the high watermark "
                f"{partition.high_watermark} of the same response",
            )
        self.positions[key], self.epochs[key] = following, epoch
        world.polled(self, key, position, values, following, epoch, partition.high_watermark)

    # The start of a log --------------------------------------------------------------------------

    def _list_start(self, key: PartitionKey, now: Now) -> None:
        topic_id, index = key
        leader = self.leader_of(key, now)
        if leader < 0 or topic_id not in self.topic_names:
            return
        partition = ListOffsetsPartition(
            partition_index=index, current_leader_epoch=self.leaders[key][1], timestamp=EARLIEST
        )
        topic = ListOffsetsTopic(name=self.topic_names[topic_id], partitions=[partition])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic], timeout_ms=WAIT_MS)
        self._fetching.add(key)
        self.send_request(
            leader,
            ApiKey.LIST_OFFSETS,
            request,
            WAIT_MS,
            lambda response, now: self._on_start_offset(key, response, now),
        )

    def _on_start_offset(self, key: PartitionKey, response: Any, now: Now) -> None:
        self._fetching.discard(key)
        self._retry_at_ms[key] = now.monotonic_ms + RETRY_MS
        if response is None:
            self.refresh_soon(now)
            return
        partition = response.topics[0].partitions[0]
        self.world.count_response("offsets", partition.error_code)
        if partition.error_code:
            if partition.error_code not in RETRIABLE:
                raise Violation("consumer", f"{self} got error {partition.error_code} for {key}")
            self.refresh_soon(now)
            return
        self._out_of_range.discard(key)
        self.world.restarted(self, key, partition.offset, partition.leader_epoch)
        self.positions[key], self.epochs[key] = partition.offset, partition.leader_epoch
        self.work(now)
