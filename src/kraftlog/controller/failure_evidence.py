"""Evidence that a broker's process is gone: its connection ended, and a new one was refused.

It ends a session early, so that a failed broker is not waited for. It can only cost availability: a
broker that was fenced by mistake is unfenced after its next heartbeat, and evidence is then
ignored for some minutes. What refuses all brokers at once, such as a firewall, is not believed.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.controller.sessions import BrokerSessions
    from kraftlog.metadata.values import BrokerImage

#: How long evidence is ignored after it was wrong.
IGNORED_AFTER_MISTAKE_MS = 300_000


class _Believed(Value):
    """A broker epoch whose process is believed to be gone."""

    epoch: int
    at_ms: int
    #: When its session would have timed out.
    until_ms: int


class FailureEvidence:
    """Decides whether evidence of a failure is believed."""

    def __init__(self, sessions: BrokerSessions) -> None:
        self._sessions = sessions
        self._believed: dict[int, _Believed] = {}
        self._ignored_until_ms = 0
        #: Log lines for the operator.
        self.notes: list[str] = []

    def begin(self) -> None:
        """Forget the evidence of a former activation."""
        self._believed.clear()

    def is_believed(
        self,
        brokers: Mapping[int, BrokerImage],
        broker_id: int,
        epoch: int,
        ended_ms: int,
        now_ms: int,
    ) -> bool:
        """Whether a broker is to be fenced, because its connection ended and another was refused.

        At least half of the brokers stay. Called once per broker epoch that is to be fenced.
        """
        broker, session = brokers.get(broker_id), self._sessions.get(broker_id)
        if broker is None or broker.epoch != epoch or not broker.active or session is None:
            return False
        if session.heard_ms > ended_ms or now_ms < self._ignored_until_ms:
            return False
        self._believed = gone = {
            each: of
            for each, of in self._believed.items()
            if of.until_ms > now_ms and each in brokers and brokers[each].epoch == of.epoch
        }
        left = sum(not it.fenced and it.id not in gone for it in brokers.values()) - 1
        if broker_id in gone or left < len(gone) + 1:
            return False
        gone[broker_id] = _Believed(epoch, now_ms, now_ms + self._sessions.timeout_ms)
        self.notes.append(
            f"broker {broker_id} is fenced: its connection has ended, and it refuses another"
        )
        return True

    def heard(self, broker_id: int, epoch: int, arrived_ms: int, now_ms: int) -> bool:
        """A heartbeat has arrived; False if its sender is believed to be gone since."""
        believed = self._believed.get(broker_id)
        if believed is None or believed.epoch != epoch:
            return True
        if arrived_ms <= believed.at_ms:
            return False
        del self._believed[broker_id]
        self._ignored_until_ms = now_ms + IGNORED_AFTER_MISTAKE_MS
        self.notes.append(
            f"broker {broker_id} is alive although it refused a connection: for the next five "
            "minutes brokers are fenced only after their session timeout"
        )
        return True
