"""Broker sessions: times of the last heartbeats, known only to the active controller.

A new controller gives every unfenced broker a whole session, because it does not know the last
heartbeats.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class BrokerSession(Value):
    broker_id: int
    epoch: int
    last_contact_ms: int
    #: The metadata offset that it has applied.
    metadata_offset: int = -1
    #: Log end offset at its shutdown request; all other brokers must reach it first.
    shutdown_offset: int = -1
    #: When this controller last heard from it; -1: not since its activation.
    heard_ms: int = -1


class BrokerSessions:
    """Sessions of brokers, oldest heartbeat first."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._by_broker: dict[int, BrokerSession] = {}

    def begin(self, brokers: Iterable[tuple[int, int]], now_ms: int) -> None:
        """Restart all sessions on activation, from pairs of id and epoch."""
        self._by_broker = {
            broker: BrokerSession(broker, epoch, now_ms) for broker, epoch in sorted(brokers)
        }

    def get(self, broker_id: int) -> BrokerSession | None:
        return self._by_broker.get(broker_id)

    def touch(
        self, broker_id: int, epoch: int, now_ms: int, metadata_offset: int = -1
    ) -> BrokerSession:
        """Move a broker to the end: dicts keep their order, so the oldest heartbeat is first."""
        before = self._by_broker.pop(broker_id, None)
        kept = before.shutdown_offset if before is not None and before.epoch == epoch else -1
        session = BrokerSession(broker_id, epoch, now_ms, metadata_offset, kept, now_ms)
        self._by_broker[broker_id] = session
        return session

    def shutting_down(self, broker_id: int, offset: int) -> None:
        session = self._by_broker[broker_id]
        if session.shutdown_offset < 0:
            self._by_broker[broker_id] = session.replace(shutdown_offset=offset)

    def end(self, broker_id: int) -> None:
        self._by_broker.pop(broker_id, None)

    def forget_unregistered(self, epochs: Mapping[int, int]) -> None:
        """Keep only sessions of registered brokers with these epochs."""
        self._by_broker = {
            broker: session
            for broker, session in self._by_broker.items()
            if epochs.get(broker) == session.epoch
        }

    def lost(self, broker_id: int) -> None:
        """Expire the session of a broker at once, because its process is proved to be down."""
        session = self._by_broker.pop(broker_id, None)
        if session is not None:
            gone = session.replace(last_contact_ms=-self.timeout_ms - 1)
            self._by_broker = {broker_id: gone, **self._by_broker}

    def valid(self, broker_id: int, now_ms: int) -> bool:
        session = self._by_broker.get(broker_id)
        return session is not None and now_ms <= session.last_contact_ms + self.timeout_ms

    def stale(self, now_ms: int) -> int | None:
        """A broker with an expired session, if any."""
        for broker_id in self._by_broker:
            return None if self.valid(broker_id, now_ms) else broker_id
        return None

    def deadline(self) -> int | None:
        """When the first broker session expires."""
        for session in self._by_broker.values():
            return session.last_contact_ms + self.timeout_ms + 1
        return None

    def lowest_offset(self, broker_ids: Iterable[int]) -> int | None:
        """The lowest offset that these brokers have applied; None if there are none."""
        offsets = [
            self._by_broker[broker].metadata_offset
            for broker in broker_ids
            if broker in self._by_broker
        ]
        return min(offsets, default=None)
