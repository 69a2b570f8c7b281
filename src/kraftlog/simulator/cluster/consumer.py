"""A consumer of all partitions, from their beginning, one fetch in flight to each broker.

Each fetch names the epoch of the consumer's last record (KIP-320), so that it notices when
its partition was removed and another one added (V11). Where its position is gone, for that reason
or because records were deleted, it goes on at the start.
With a rack it fetches from the follower that a leader names (KIP-392), for a while or until that
fails; then it asks the leader again.
"""

from __future__ import annotations

from kraftlog.errors import RETRIABLE, ErrorCode
from kraftlog.records.reader import read_records
from kraftlog.records.walk import walk
from kraftlog.simulator.cluster.clients import RETRY_MS, Client
from kraftlog.simulator.violation import Violation
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kraftlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.metadata.values import PartitionKey
    from kraftlog.simulator.cluster.clients import ClientWorld
    from kraftlog.types import Now

WAIT_MS = 500
MAX_BYTES = 1 << 20
CONTROL_FLAG = 1 << 5
#: What ListOffsets takes as the time of the first record.
EARLIEST = -2
#: How long a follower that a leader has named is fetched from.
PREFERRED_MS = 2000


class Consumer(Client):
    """`positions` has the next offset of each partition, `epochs` the epoch before it."""

    def __init__(self, world: ClientWorld, number: int) -> None:
        super().__init__(world, number)
        self.positions: dict[PartitionKey, int] = {}
        self.epochs: dict[PartitionKey, int] = {}
        #: The partitions whose position is not in the log: they continue at its start.
        self._out_of_range: set[PartitionKey] = set()
        self._in_flight: set[int] = set()
        #: The partitions in these requests: their leader may change meanwhile.
        self._fetching: set[PartitionKey] = set()
        self._retry_ms: dict[PartitionKey, int] = {}
        #: Some fetch few batches at once, so that more depends on offsets in between.
        self._max_bytes = self.rng.pick([MAX_BYTES, 150])
        self._wait_ms = self.rng.pick([WAIT_MS, 100])
        self._rack = world.setting.rack_of(number)
        #: The followers that leaders have named, and until when they are fetched from.
        self._preferred: dict[PartitionKey, tuple[int, int]] = {}

    def deadline(self) -> int | None:
        now_ms = self.world.time
        return min([at for at in self._retry_ms.values() if at > now_ms], default=None)

    def work(self, now: Now) -> None:
        wanted: dict[int, list[PartitionKey]] = {}
        for key in self.world.keys:
            if key in self._fetching or self._retry_ms.get(key, 0) > now.monotonic_ms:
                continue
            if key in self._out_of_range:
                self._list_start(key, now)
                continue
            broker = self._replica_of(key, now)
            if broker >= 0 and broker not in self._in_flight:
                wanted.setdefault(broker, []).append(key)
        for broker, keys in wanted.items():
            self._fetch(broker, keys)

    def _replica_of(self, key: PartitionKey, now: Now) -> int:
        """The broker to fetch from: the follower that was named, or the leader."""
        leader = self.leader_of(key, now)
        preferred, until_ms = self._preferred.get(key, (-1, 0))
        return preferred if leader >= 0 and now.monotonic_ms < until_ms else leader

    def _fetch(self, broker: int, keys: list[PartitionKey]) -> None:
        topics: dict[bytes, list[FetchPartition]] = {}
        asked: dict[PartitionKey, int] = {}
        for key in keys:
            topic_id, index = key
            asked[key] = self.positions.setdefault(key, 0)
            topics.setdefault(topic_id, []).append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=self.leaders[key][1],
                    fetch_offset=asked[key],
                    last_fetched_epoch=self.epochs.get(key, -1),
                    partition_max_bytes=self._max_bytes,
                )
            )
        request = FetchRequest(
            max_wait_ms=self._wait_ms,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            topics=[FetchTopic(topic_id=it, partitions=parts) for it, parts in topics.items()],
            rack_id=self._rack,
        )
        self._in_flight.add(broker)
        self._fetching.update(asked)
        self.send_request(
            broker,
            ApiKey.FETCH,
            request,
            self._wait_ms,
            lambda response, now: self._on_response(broker, asked, response, now),
        )

    def _on_response(
        self, broker: int, asked: dict[PartitionKey, int], response: Any, now: Now
    ) -> None:
        self._in_flight.discard(broker)
        self._fetching.difference_update(asked)
        if response is None or response.error_code:
            for key in asked:
                self._preferred.pop(key, None)
                self._retry_ms[key] = now.monotonic_ms + RETRY_MS
            self.refresh_soon(now)
            return
        for topic in response.responses:
            for partition in topic.partitions:
                key = topic.topic_id, partition.partition_index
                self._got(key, broker, asked[key], partition, now)

    def _got(self, key: PartitionKey, broker: int, position: int, partition: Any, now: Now) -> None:
        code = partition.error_code
        self.world.count_response("fetch", code)
        is_gone = code == ErrorCode.OFFSET_OUT_OF_RANGE or partition.diverging_epoch.end_offset >= 0
        if code or is_gone:
            by_follower = self._preferred.pop(key, (-1, 0))[0] == broker
            self._retry_ms[key] = now.monotonic_ms + RETRY_MS
            if is_gone and not by_follower:
                self.world.must_restart(self, key, position, self.epochs.get(key, -1))
                self._out_of_range.add(key)
            elif code not in RETRIABLE and not is_gone:
                raise Violation("consumer", f"{self} got error {code} at {position} of {key}")
            named = partition.current_leader
            self.learn(key, named.leader_id, named.leader_epoch)
            self.refresh_soon(now)
            return
        if partition.preferred_read_replica >= 0:
            self.world.saw("follower named to a consumer")
            until_ms = now.monotonic_ms + PREFERRED_MS
            self._preferred[key] = partition.preferred_read_replica, until_ms
            return
        if self._preferred.get(key, (-1, 0))[0] == broker:
            self.world.saw("fetch served by a follower")
        self._take(key, position, partition)

    def _take(self, key: PartitionKey, position: int, partition: Any) -> None:
        records = bytes(partition.records or b"")
        found: list[tuple[int, int]] = []
        following = position
        world, epoch = self.world, self.epochs.get(key, -1)
        for place, fields in walk(records, may_end_in_batch=True):
            following = max(following, fields[0] + fields[6] + 1)
            is_other = world.first_epoch(key, fields[2]) != world.first_epoch(key, epoch)
            if is_other and epoch >= 0 and position > world.deleted_before(key):
                raise Violation(
                    "consumer",
                    f"{self} got records of epoch {fields[2]} of {key}, from {fields[0]} on, after "
                    f"those of epoch {epoch}: they are of different partitions",
                )
            epoch = fields[2]
            if not fields[5] & CONTROL_FLAG:
                found += [
                    (it.offset, int(it.value or b""))
                    for it in read_records(records, place)
                    if it.offset >= position
                ]
        if following > max(position, partition.high_watermark):
            raise Violation(
                "consumer",
                f"{self} got records of {key} up to {following}, beyond the high watermark "
                f"{partition.high_watermark} of the same response",
            )
        self.positions[key], self.epochs[key] = following, epoch
        world.polled(self, key, position, found, following, epoch, partition.high_watermark)

    # The start of a log --------------------------------------------------------------------------

    def _list_start(self, key: PartitionKey, now: Now) -> None:
        topic_id, index = key
        leader = self.leader_of(key, now)
        if leader < 0 or topic_id not in self.names:
            return
        asked = ListOffsetsPartition(
            partition_index=index, current_leader_epoch=self.leaders[key][1], timestamp=EARLIEST
        )
        topic = ListOffsetsTopic(name=self.names[topic_id], partitions=[asked])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic], timeout_ms=WAIT_MS)
        self._fetching.add(key)
        self.send_request(
            leader,
            ApiKey.LIST_OFFSETS,
            request,
            WAIT_MS,
            lambda response, now: self._got_start(key, response, now),
        )

    def _got_start(self, key: PartitionKey, response: Any, now: Now) -> None:
        self._fetching.discard(key)
        self._retry_ms[key] = now.monotonic_ms + RETRY_MS
        if response is None:
            self.refresh_soon(now)
            return
        found = response.topics[0].partitions[0]
        self.world.count_response("offsets", found.error_code)
        if found.error_code:
            if found.error_code not in RETRIABLE:
                raise Violation("consumer", f"{self} got error {found.error_code} for {key}")
            self.refresh_soon(now)
            return
        self._out_of_range.discard(key)
        self.world.restarted(self, key, found.offset, found.leader_epoch)
        self.positions[key], self.epochs[key] = found.offset, found.leader_epoch
        self.work(now)
