"""Broker sessions: times of the last heartbeats, known only to the active controller.

A controller that becomes active starts every session again with the full timeout, because it does
not know when the brokers sent their last heartbeats.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: A broker that is behind for longer than this is logged.
BEHIND_LIMIT_MS = 10_000


class BrokerSession(Value):
    broker_id: int
    epoch: int
    #: When the session began or was last renewed or extended: its timeout counts from here.
    last_contact_ms: int
    #: The metadata offset that it has applied.
    metadata_offset: int = -1
    #: Log end offset at its shutdown request, which waits until all other brokers have applied it;
    #: -1: no request.
    shutdown_offset: int = -1
    #: When this controller last heard from it; -1: not since its activation.
    heard_ms: int = -1
    #: The committed offset at its last heartbeat; -1 if it was fenced.
    committed_offset: int = -1
    #: Since when it lags by more than one heartbeat's records; -1 if it does not.
    behind_since_ms: int = -1
    #: Whether it was logged that it is behind.
    is_reported: bool = False


class BrokerSessions:
    """Sessions of brokers, oldest heartbeat first."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._by_broker: dict[int, BrokerSession] = {}
        #: Log lines for the operator.
        self.log_lines: list[str] = []

    def begin(self, brokers: Iterable[tuple[int, int]], now_ms: int) -> None:
        """Restart all sessions on activation, from pairs of id and epoch."""
        self._by_broker = {
            broker: BrokerSession(broker, epoch, now_ms) for broker, epoch in sorted(brokers)
        }

    def get(self, broker_id: int) -> BrokerSession | None:
        return self._by_broker.get(broker_id)

    def touch(
        self,
        broker_id: int,
        epoch: int,
        now_ms: int,
        metadata_offset: int = -1,
        committed_offset: int = -1,
    ) -> None:
        """Renew a session, and move it to the end of the dict: the oldest heartbeat stays first.

        `committed_offset`: what an unfenced broker should have applied by its next heartbeat.
        """
        before = self._by_broker.pop(broker_id, None)
        session = BrokerSession(broker_id, epoch, now_ms, metadata_offset, heard_ms=now_ms)
        session = session.replace(committed_offset=committed_offset)
        if before is not None and before.epoch == epoch:
            session = session.replace(shutdown_offset=before.shutdown_offset)
            if metadata_offset < before.committed_offset:
                session = self._behind(before, session)
        self._by_broker[broker_id] = session

    def _behind(self, before: BrokerSession, session: BrokerSession) -> BrokerSession:
        """The session of a broker that is slow to apply changes (V17); log it once."""
        since_ms = before.behind_since_ms
        if since_ms < 0:
            since_ms = before.last_contact_ms
        behind_ms = session.last_contact_ms - since_ms
        is_reported = before.is_reported or behind_ms > BEHIND_LIMIT_MS
        if is_reported and not before.is_reported:
            self.log_lines.append(
                f"broker {session.broker_id} is slow to apply metadata: for {behind_ms} ms it has "
                f"been behind, at offset {session.metadata_offset} of {before.committed_offset}"
            )
        return session.replace(behind_since_ms=since_ms, is_reported=is_reported)

    def extend_while_deciding(self, broker_id: int, epoch: int, now_ms: int) -> None:
        """Extend the session of this node's own broker while its heartbeat waits for a decision.

        A large decision may take longer than the session timeout. Other brokers repeat their
        heartbeat after half of it.
        """
        session = self._by_broker.get(broker_id)
        if session is None or session.epoch != epoch or not self.is_valid(broker_id, now_ms):
            return
        if now_ms - session.last_contact_ms > self.timeout_ms // 2:
            del self._by_broker[broker_id]
            self._by_broker[broker_id] = session.replace(last_contact_ms=now_ms)

    def behind_ms(self, now_ms: int) -> list[int]:
        """For how long each broker that is slow to apply changes has been behind (V17)."""
        since = [each.behind_since_ms for each in self._by_broker.values()]
        return [now_ms - each for each in since if each >= 0]

    def begin_shutdown(self, broker_id: int, offset: int) -> None:
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

    def expire(self, broker_id: int) -> None:
        """Expire the session of a broker at once, because its process is proved to be down."""
        session = self._by_broker.pop(broker_id, None)
        if session is not None:
            expired = session.replace(last_contact_ms=-self.timeout_ms - 1)
            self._by_broker = {broker_id: expired, **self._by_broker}

    def is_valid(self, broker_id: int, now_ms: int) -> bool:
        session = self._by_broker.get(broker_id)
        return session is not None and now_ms <= session.last_contact_ms + self.timeout_ms

    def first_expired(self, now_ms: int) -> int | None:
        """A broker with an expired session, if any."""
        for broker_id in self._by_broker:
            return None if self.is_valid(broker_id, now_ms) else broker_id
        return None

    def deadline(self) -> int | None:
        """When the first broker session expires."""
        for session in self._by_broker.values():
            return session.last_contact_ms + self.timeout_ms + 1
        return None

    def lowest_offset(self, broker_ids: Iterable[int]) -> int | None:
        """The lowest offset that these brokers have applied; None if none has a session."""
        offsets = [
            self._by_broker[broker].metadata_offset
            for broker in broker_ids
            if broker in self._by_broker
        ]
        return min(offsets, default=None)
