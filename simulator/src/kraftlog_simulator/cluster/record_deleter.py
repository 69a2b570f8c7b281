"""A client that deletes records that a consumer has read, in half of the runs."""

from __future__ import annotations

from kraftlog.errors import RETRIABLE, ErrorCode
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraftlog_simulator.cluster.clients import Client
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.metadata.values import PartitionKey
    from kraftlog.types import Now
    from kraftlog_simulator.cluster.clients import ClientWorld

REQUEST_MS = 1000
#: The pause between two requests.
GAP_MS = (300, 2000)


class RecordDeleter(Client):
    """`requested` has the highest requested offset of each partition, by topic name and index.

    A request may take effect though its outcome is unknown, even on a topic that was created again.
    """

    def __init__(self, world: ClientWorld, number: int) -> None:
        super().__init__(world, number)
        self.requested: dict[tuple[str, int], int] = {}

    def begin(self) -> None:
        if self.rng.below(2):
            self._schedule()

    def _schedule(self) -> None:
        world = self.world
        world.schedule(world.time + self.rng.between(*GAP_MS), self._delete)

    def _delete(self) -> None:
        if not self.world.healed:
            self.turn("deletes records", self._send)
            self._schedule()

    def _send(self, now: Now) -> None:
        world = self.world
        # The key of a partition is its topic id and index.
        keys = [key for key in world.keys if world.read_up_to(key) and key[0] in self.topic_names]
        if not keys:
            return
        key = self.rng.pick(keys)
        self._delete_before(key, 1 + self.rng.below(world.read_up_to(key)), now)

    def delete_all(self, key: PartitionKey) -> None:
        """Delete all that a consumer has read."""
        offset = self.world.read_up_to(key)
        if offset and key[0] in self.topic_names:
            self.turn("deletes all", lambda now: self._delete_before(key, offset, now))

    def _delete_before(self, key: PartitionKey, offset: int, now: Now) -> None:
        leader = self.leader_of(key, now)
        if leader < 0:
            return
        partition = self.topic_names[key[0]], key[1]
        self.requested[partition] = max(offset, self.requested.get(partition, 0))
        deletion = DeleteRecordsPartition(partition_index=partition[1], offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=partition[0], partitions=[deletion])],
            timeout_ms=REQUEST_MS,
        )
        self.send_request(leader, ApiKey.DELETE_RECORDS, request, REQUEST_MS, self._on_response)

    def _on_response(self, response: Any, now: Now) -> None:
        if response is None:
            self.refresh_soon(now)
            return
        code = response.topics[0].partitions[0].error_code
        self.world.count_response("DeleteRecords", code)
        if code in RETRIABLE:
            self.refresh_soon(now)
        # OFFSET_OUT_OF_RANGE: the partition was removed and added again, with fewer records.
        elif code and code != ErrorCode.OFFSET_OUT_OF_RANGE:
            raise Violation("record deleter", f"error {code}")

    def work(self, now: Now) -> None:
        """Do nothing: requests are sent at scheduled times alone."""
