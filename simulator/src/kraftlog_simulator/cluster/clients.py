"""A client process: its connections to brokers, and the leaders that it knows."""

from __future__ import annotations

from kraftlog.effects import RequestFailed, ResponseReceived, SendRequest, VersionUnsupported
from kraftlog.types import ANONYMOUS, Now
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.messages.metadata import MetadataRequest
from kraftlog_simulator.nodes.connections import BROKER_PORT, VirtualPeers
from kraftlog_simulator.nodes.replica import host_of
from kraftlog_simulator.process import WALL_CLOCK_START_MS
from kraftlog_simulator.rng import Rng

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from kraftlog.metadata.image import Image
    from kraftlog.metadata.values import PartitionKey
    from kraftlog.wire.schema import Message
    from kraftlog_simulator.checkers.group_history import GroupHistory
    from kraftlog_simulator.checkers.partition_history import PartitionHistory
    from kraftlog_simulator.cluster.setting import ClusterSetting

    #: Called with the response, or None if there is none.
    OnResponse = Callable[[Any, Now], None]

    class ClientWorld(Protocol):
        """What clients use of their world, and report to it."""

        seed: int
        setting: ClusterSetting
        time: int
        healed: bool
        progress: int
        operations: int
        image: Image
        #: The partitions that clients use.
        keys: list[PartitionKey]
        history: PartitionHistory
        groups: GroupHistory

        @property
        def is_known_without_acls(self) -> bool: ...
        def schedule(self, when: int, act: Callable[..., None], *arguments: Any) -> None: ...
        def saw(self, what: str) -> None: ...
        def next_value(self) -> int: ...
        def count_response(self, what: str, code: int) -> None: ...
        def acknowledged(
            self, producer: Any, key: PartitionKey, value: int, offset: int
        ) -> None: ...
        def refused(self, value: int) -> None: ...
        def polled(
            self,
            consumer: Any,
            key: PartitionKey,
            position: int,
            records: Sequence[tuple[int, int]],
            following: int,
            epoch: int,
            high_watermark: int,
        ) -> None: ...
        def read_up_to(self, key: PartitionKey) -> int: ...
        def deleted_before(self, key: PartitionKey) -> int: ...
        def restarted(self, consumer: Any, key: PartitionKey, start: int, epoch: int) -> None: ...
        def first_epoch(self, key: PartitionKey, epoch: int) -> int: ...
        def check_must_restart(
            self, consumer: Any, key: PartitionKey, position: int, epoch: int
        ) -> None: ...
        @property
        def has_lost_offsets(self) -> bool: ...
        def has_lost_records(self, key: PartitionKey) -> bool: ...


#: The ids of clients in the network start here, above those of nodes.
FIRST_CLIENT = 100
RETRY_MS = 50
#: The time between refreshes of the metadata.
REFRESH_MS = 1000
#: How much longer than the broker's timeout a client waits for its response.
RESPONSE_GRACE_MS = 500
CHANNEL = "client"


class Client:
    """A client; the network calls `turn` for each event, and then `work` sends due requests."""

    principal = ANONYMOUS

    def __init__(self, world: ClientWorld, number: int) -> None:
        self.world = world
        self.id = FIRST_CLIENT + number
        self.name = f"{type(self).__name__.lower()} {number}"
        self.rng = Rng(world.seed, self.name)
        self.incarnation = 0
        self.paused = False
        self.waiting: list[Any] = []
        self.peers = VirtualPeers(self, self._receive)  # type: ignore[arg-type]  # a client has all that the peers use of a replica
        self._callbacks: dict[int, OnResponse] = {}
        self._last_number = 0
        #: The leader of each partition and its epoch.
        self.leaders: dict[PartitionKey, tuple[int, int]] = {}
        #: The name of each topic, by its id.
        self.topic_names: dict[bytes, str] = {}
        self._refresh_at_ms = 0
        self._is_refreshing = False
        self._wake_at = -1

    def __repr__(self) -> str:
        return self.name

    # Turns ---------------------------------------------------------------------------------------

    def read_clock(self) -> Now:
        return Now(self.world.time, WALL_CLOCK_START_MS + self.world.time)

    def turn(self, what: str, act: Callable[..., None], *arguments: Any) -> None:  # noqa: ARG002 - called like a replica's
        now = self.read_clock()
        act(*arguments, now)
        self.peers.expire(now)
        if self._refresh_at_ms <= now.monotonic_ms and not self._is_refreshing:
            self._request_metadata(now)
        self.work(now)
        self.peers.flush(now)
        self._arm()

    def take_turn(self) -> None:
        self.turn("takes a turn", lambda _: None)

    def work(self, now: Now) -> None:
        """Send the requests that are due."""
        raise NotImplementedError

    def deadline(self) -> int | None:
        """When `work` has something to do."""
        return None

    def _arm(self) -> None:
        deadlines = [self.peers.deadline(), self.deadline()]
        if not self._is_refreshing:
            deadlines.append(self._refresh_at_ms)
        when = max(
            min([deadline for deadline in deadlines if deadline is not None]), self.world.time + 1
        )
        if self._wake_at <= self.world.time or when < self._wake_at:
            self._wake_at = when
            self.world.schedule(when, self._wake, when)

    def _wake(self, when: int) -> None:
        if when == self._wake_at:
            self.take_turn()

    # Requests ------------------------------------------------------------------------------------

    def send_request(
        self,
        node: int,
        api_key: int,
        request: Message,
        wait_ms: int,
        on_response: OnResponse,
        port: int = BROKER_PORT,
    ) -> None:
        self._last_number += 1
        self._callbacks[self._last_number] = on_response
        self.peers.send(
            SendRequest(
                channel=CHANNEL,
                peer=node,
                host=host_of(node),
                port=port,
                number=self._last_number,
                api_key=api_key,
                version=APIS[api_key].last,
                request=request,
                timeout_ms=wait_ms + RESPONSE_GRACE_MS,
            )
        )

    def _receive(self, report: Any, now: Now) -> None:
        if isinstance(report, ResponseReceived):
            self._callbacks.pop(report.number)(report.response, now)
        elif isinstance(report, RequestFailed | VersionUnsupported):
            assert isinstance(report, RequestFailed), "all brokers support the same versions"
            self._callbacks.pop(report.number)(None, now)

    def some_broker(self) -> int:
        return self.rng.pick(self.world.setting.brokers)

    # Leaders -------------------------------------------------------------------------------------

    def refresh_soon(self, now: Now) -> None:
        """Refresh the metadata soon: a leader is unknown, or did not serve a request."""
        self._refresh_at_ms = min(self._refresh_at_ms, now.monotonic_ms + RETRY_MS)

    def _request_metadata(self, now: Now) -> None:  # noqa: ARG002 - called like `work`
        self._is_refreshing = True
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        self.send_request(self.some_broker(), ApiKey.METADATA, request, 500, self._on_metadata)

    def _on_metadata(self, response: Any, now: Now) -> None:
        self._is_refreshing = False
        self._refresh_at_ms = now.monotonic_ms + (RETRY_MS if response is None else REFRESH_MS)
        for topic in response.topics if response is not None else ():
            self.topic_names[topic.topic_id] = topic.name or ""
            for partition in topic.partitions if not topic.error_code else ():
                key = topic.topic_id, partition.partition_index
                self.learn(key, partition.leader_id, partition.leader_epoch)

    def learn(self, key: PartitionKey, leader: int, epoch: int) -> None:
        """A broker named a partition's leader and its epoch: the highest epoch is kept."""
        if epoch >= self.leaders.get(key, (-1, -1))[1]:
            self.leaders[key] = leader, epoch

    def leader_of(self, key: PartitionKey, now: Now) -> int:
        """The leader that the client knows; or -1, and the metadata is refreshed soon."""
        leader = self.leaders.get(key, (-1, -1))[0]
        if leader < 0:
            self.refresh_soon(now)
        return leader
