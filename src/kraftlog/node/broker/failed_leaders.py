"""`FailedLeaders`: Metadata waits for the election that follows the end of a leader's process.

A client asks for metadata as soon as its connection to a leader is lost, often before the
controller has elected another one. An answer that names the dead leader would stand until the
client's next periodic refresh (in librdkafka a second later). So the answer waits: until the dead
broker is fenced, which comes with the elections, or has registered again, or for WAIT_MS (V24).

For NAMED_MS after it is fenced, Metadata goes on naming the broker in the list of brokers, though
not as a leader. librdkafka (2.16) ends the thread of a broker that is not in the list; if the same
answer moves partitions away from that broker, they are left without a leader until its next
periodic refresh.
"""

from __future__ import annotations

from kraftlog.metadata.changes import BrokerChanged
from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.part import Part
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kraftlog.effects import ConnectionRefused
    from kraftlog.metadata.changes import Change
    from kraftlog.metadata.image import Image
    from kraftlog.metadata.loader import MetadataLoader
    from kraftlog.metadata.values import BrokerImage, PartitionImage
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now

#: The longest wait for an election, from the time at which the leader refused a connection.
WAIT_MS = 500
#: The longest wait after a mere loss of the connection: a process that ends may refuse later.
LOST_MS = 200
#: Reports with shorter gaps than this are of the same failure, for which no request waits again.
SAME_FAILURE_MS = 5000
#: How long a fenced broker is still named in the list of brokers.
NAMED_MS = 1000
#: A request for more partitions than this does not wait.
MAX_PARTITIONS = 1000
#: Cost of a request that ends its wait, in microseconds.
WAKE_COST = 5


class DelayedMetadata:
    """A Metadata request that waits for an election; `on_done` responds."""

    __slots__ = ("_on_done", "done", "pending")

    def __init__(self, pending: PendingResponse, on_done: Callable[[], None]) -> None:
        self.pending = pending
        self.done = False
        self._on_done = on_done
        pending.waiter = self

    def complete(self) -> None:
        if not self.done:
            self.done = True
            self.pending.waiter = None
            self._on_done()

    def expire(self, now: Now) -> None:  # noqa: ARG002 - interface of delayed operations
        self.complete()

    def cancel(self) -> None:
        """The connection is closed."""
        self.done = True


class _Failure:
    """A broker that does not respond; requests wait for its successors until `until_ms`."""

    __slots__ = ("is_refused", "reported_ms", "until_ms")

    def __init__(self) -> None:
        self.is_refused = False
        self.until_ms = self.reported_ms = 0


class FailedLeaders(Part, MetadataPublisher):
    """Knows the brokers whose connections have ended, until the metadata says so."""

    name = "failed leaders"

    def __init__(self, metadata: MetadataLoader, clock: Callable[[], Now]) -> None:
        self._metadata = metadata
        self._clock = clock
        self._failures: dict[int, _Failure] = {}
        #: Until when fenced brokers are named.
        self._named_until_ms: dict[int, int] = {}
        self._waiting: list[DelayedMetadata] = []
        self._have_changed = False

    def peer_down(self, report: ConnectionRefused, now: Now) -> None:
        self.connection_lost(report.peer, now, is_refused=True)

    def connection_lost(self, broker_id: int, now: Now, *, is_refused: bool = False) -> None:
        """A request to a broker has failed, or its connection has closed and is refused."""
        broker = self._metadata.image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return
        now_ms, failure = now.monotonic_ms, self._failures.get(broker_id)
        is_new = failure is None or now_ms - failure.reported_ms >= SAME_FAILURE_MS
        if failure is None or is_new:
            failure = self._failures[broker_id] = _Failure()
        if is_new or is_refused > failure.is_refused:
            failure.until_ms = now_ms + (WAIT_MS if is_refused else LOST_MS)
        failure.is_refused |= is_refused
        failure.reported_ms = now_ms

    def waits_until_ms(self, partitions: Iterable[PartitionImage], now: Now) -> int:
        """Until when a request for these partitions waits; 0 if it does not."""
        down = {
            broker: failure.until_ms
            for broker, failure in self._failures.items()
            if failure.until_ms > now.monotonic_ms
        }
        if not down:
            return 0
        until_ms = 0
        for number, partition in enumerate(partitions):
            if number >= MAX_PARTITIONS:
                return 0
            until_ms = max(until_ms, down.get(partition.leader, 0))
        return until_ms

    def wait(self, delayed: DelayedMetadata) -> None:
        self._waiting = [each for each in self._waiting if not each.done]
        self._waiting.append(delayed)

    def names(self, broker: BrokerImage) -> bool:
        """Whether Metadata names a broker: it is not fenced, or has been so for a short time."""
        if not broker.fenced:
            return True
        until_ms = self._named_until_ms.get(broker.id, 0)
        return self._clock().monotonic_ms < until_ms

    # Metadata ------------------------------------------------------------------------------------

    def changed(self, change: Change) -> None:
        if not isinstance(change, BrokerChanged):
            return
        before, after = change.before, change.after
        if before is None:
            return
        is_same = after is not None and after.epoch == before.epoch
        if not is_same or (after is not None and after.fenced):
            self._have_changed |= self._failures.pop(before.id, None) is not None
        if is_same and after is not None and after.fenced and not before.fenced:
            self._named_until_ms[before.id] = self._clock().monotonic_ms + NAMED_MS
        else:
            self._named_until_ms.pop(before.id, None)

    def reloaded(self, before: Image) -> None:  # noqa: ARG002 - interface of publishers
        self._have_changed = bool(self._failures)
        self._failures.clear()
        self._named_until_ms.clear()

    def published(self) -> Iterator[int]:
        if self._have_changed:
            self._have_changed = False
            waiting, self._waiting = self._waiting, []
            for delayed in waiting:
                delayed.complete()
                yield WAKE_COST
