"""`Node`: requests in, effects out. Pure; the server and the simulator are its hosts.

Two doors. Control traffic comes in by `handle` and leaves as effects. Requests come in by
`request`; what they do to partitions goes on the flat list `turn`, which the host writes and
empties once per turn of its loop, reporting back by `written` or `write_failed`.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from kraftlog.effects import LogFailed, LogFlushed, LogOpened, OpenLog
from kraftlog.errors import ErrorCode, ProtocolError
from kraftlog.metadata.changes import PartitionChanged
from kraftlog.metadata.image import Image
from kraftlog.node.api_table import SERVED, handler
from kraftlog.replication.partition import Append, Partition
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire import codec
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.frames import read_request_head

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from kraftlog.node.slots import Slot
    from kraftlog.ports.logs import LogReader
    from kraftlog.types import Buffer, LogName, Now, Uuid
    from kraftlog.wire.schema import Message

#: So many waiting requests are not worth looking through for those that are done.
WAITING_UNTIDIED = 1024


class NodeConfig(Value):
    """Who this node is."""

    node_id: int
    cluster_id: str


class Node:
    """The whole of a broker that decides. Its parts are the cores; this only connects them."""

    def __init__(self, config: NodeConfig, logs: LogReader) -> None:
        self.config = config
        self.logs = logs
        self.image = Image()
        self.partitions: dict[tuple[Uuid, int], Partition] = {}
        self.by_log: dict[LogName, Partition] = {}
        #: What the requests of this turn append, a partition at a time.
        self.turn: list[Append] = []
        self._effects: list[Any] = []
        #: Requests that wait with a time limit: (deadline, number, what waits).
        self._waiting: list[tuple[int, int, Any]] = []
        self._tidy_at = WAITING_UNTIDIED
        self._numbers = 0

    # The control door ----------------------------------------------------------------------------

    def replay(self, records: Iterable[Message]) -> None:
        """Committed records: the image follows, and the partitions follow the image."""
        for record in records:
            for change in self.image.replay(record):
                if isinstance(change, PartitionChanged) and change.after is not None:
                    self._follow(change.after.key)

    def _follow(self, key: tuple[Uuid, int]) -> None:
        """Become what the image says this node is for a partition."""
        image = self.image.partitions[key]
        if image.leader != self.config.node_id or key in self.partitions:
            return
        topic = self.image.topics[image.topic_id].name
        log = topic, image.index
        partition = Partition(topic, image.topic_id, image.index, log)
        self.partitions[key] = self.by_log[log] = partition
        self._effects.append(OpenLog(log, image.topic_id))

    def handle(self, message: Any, now: Now) -> None:  # noqa: ARG002 - the contract of every core
        """What came of an effect."""
        if isinstance(message, LogOpened):
            partition = self.by_log[message.log]
            image = self.image.partitions[partition.topic_id, partition.index]
            partition.lead(image.leader_epoch, message.start, message.end)
        elif isinstance(message, LogFailed):
            self.write_failed(self.by_log[message.log])
        elif not isinstance(message, LogFlushed):
            raise TypeError(f"a node knows no {type(message).__name__}")

    def take_effects(self) -> list[Any]:
        taken, self._effects = self._effects, []
        return taken

    def poll(self, now: Now) -> None:
        """Do what is due."""
        while self._waiting and self._waiting[0][0] <= now.monotonic_ms:
            heappop(self._waiting)[2].expire(self)

    def deadline(self) -> int | None:
        """When `poll` has something to do, in monotonic milliseconds."""
        waiting = self._waiting
        while waiting and waiting[0][2].done:
            heappop(waiting)
        return waiting[0][0] if waiting else None

    def wait(self, waiter: Any, deadline_ms: int) -> None:
        """Have `waiter.expire(node)` called then, unless it is done before."""
        if len(self._waiting) >= self._tidy_at:
            # Those that are done lie about until their time comes, which may be weeks.
            self._waiting = [entry for entry in self._waiting if not entry[2].done]
            heapify(self._waiting)
            self._tidy_at = max(2 * len(self._waiting), WAITING_UNTIDIED)
        self._numbers += 1
        heappush(self._waiting, (deadline_ms, self._numbers, waiter))

    # The data door -------------------------------------------------------------------------------

    def frame(self, slot: Slot, buffer: Buffer, pos: int, end: int, now: Now) -> None:
        """A request as bytes. Raises ProtocolError when it is none that we serve."""
        head = read_request_head(buffer, pos, end)
        slot.correlation_id = head.correlation_id
        slot.client_id = head.client_id
        slot.version = head.version
        served = SERVED.get(head.api_key)
        if served is None:
            raise ProtocolError(f"API {head.api_key} is not served", position=0)
        slot.api = api = APIS[head.api_key]
        if not api.first <= head.version <= api.last:
            if api.key == ApiKey.API_VERSIONS:
                # The asker learns what to ask instead, in the oldest form.
                slot.version = 0
                handler(api.key)(self, slot, None, now)
                return
            raise ProtocolError(f"{api.name} version {head.version} is not served", position=2)
        request = codec.decode_request(api.request(), head.version, buffer, head.body, end)
        handler(api.key)(self, slot, request, now)

    def request(self, slot: Slot, api_key: int, version: int, request: Message, now: Now) -> None:
        """A request as an object, as the simulator sends them."""
        slot.api = APIS[api_key]
        slot.version = version
        handler(api_key)(self, slot, request, now)

    def partition(self, topic: str, topic_id: Uuid, index: int, by_id: bool) -> Partition | int:
        """The partition a request names, by name or id; else the code of what is wrong."""
        if not by_id:
            found = self.image.topic_ids.get(topic)
            if found is None:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topic_id = found
        elif topic_id not in self.image.topics:
            return ErrorCode.UNKNOWN_TOPIC_ID
        partition = self.partitions.get((topic_id, index))
        if partition is not None:
            return partition
        if (topic_id, index) in self.image.partitions:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def take_turn(self) -> list[Append]:
        """What the host has to write now; each ends in `written` or `write_failed`."""
        taken, self.turn = self.turn, []
        for append in taken:
            append.partition.pending = None
        return taken

    def written(self, partition: Partition, end: int) -> None:
        for _, slot, _ in partition.written(end):
            self._one_done(slot)
        self._wake(partition)

    def write_failed(self, partition: Partition, *, stays_online: bool = False) -> None:
        """Nobody is told that what could not be written was. A full disk is no reason to go."""
        for _, slot, told in partition.failed(stays_online=stays_online):
            told.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            told.base_offset = -1
            self._one_done(slot)
        self._wake(partition)

    @staticmethod
    def _one_done(slot: Slot) -> None:
        slot.waits -= 1
        if not slot.waits:
            slot.answer(slot.response)

    def _wake(self, partition: Partition) -> None:
        if partition.fetches:
            for fetch in list(partition.fetches):
                fetch.try_again(self)
