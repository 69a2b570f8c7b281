"""Evidence that a broker's process has ended: its connection ended, and a new one was refused.

Such evidence expires a session early, to shorten the wait for a failed broker. A mistake only costs
availability: a broker that was fenced by mistake is unfenced after its next heartbeat, and evidence
is then ignored for some minutes. Evidence against most brokers at once, such as a firewall causes,
is not believed.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.controller.sessions import BrokerSessions
    from kraftlog.metadata.values import BrokerImage

#: How long evidence is ignored after it was wrong.
IGNORED_AFTER_MISTAKE_MS = 300_000


class _BelievedFailure(Value):
    """A broker epoch whose process is believed to have ended."""

    epoch: int
    #: When the evidence was believed.
    at_ms: int
    #: When its session would have timed out.
    until_ms: int


class FailureEvidence:
    """Decides whether evidence of a failure is believed."""

    def __init__(self, sessions: BrokerSessions) -> None:
        self._sessions = sessions
        self._believed: dict[int, _BelievedFailure] = {}
        self._ignored_until_ms = 0
        #: Log lines for the operator.
        self.log_lines: list[str] = []

    def begin(self) -> None:
        """Forget the evidence of a former activation."""
        self._believed.clear()

    def believe(
        self,
        brokers: Mapping[int, BrokerImage],
        broker_id: int,
        epoch: int,
        ended_ms: int,
        now_ms: int,
    ) -> bool:
        """Return whether to fence a broker whose connection has ended and that refuses a new one.

        Evidence never fences more brokers than stay unfenced. Believed evidence is noted, so that
        it is believed only once per broker epoch.
        """
        broker, session = brokers.get(broker_id), self._sessions.get(broker_id)
        if broker is None or broker.epoch != epoch or not broker.active or session is None:
            return False
        if session.heard_ms > ended_ms or now_ms < self._ignored_until_ms:
            return False
        self._believed = failed = {
            failed_id: failure
            for failed_id, failure in self._believed.items()
            if failure.until_ms > now_ms
            and failed_id in brokers
            and brokers[failed_id].epoch == failure.epoch
        }
        unfenced = sum(not other.fenced and other.id not in failed for other in brokers.values())
        unfenced_after = unfenced - 1
        if broker_id in failed or unfenced_after < len(failed) + 1:
            return False
        failed[broker_id] = _BelievedFailure(epoch, now_ms, now_ms + self._sessions.timeout_ms)
        self.log_lines.append(
            f"broker {broker_id} is fenced: its connection has ended, and it refuses another"
        )
        return True

    def accept_heartbeat(self, broker_id: int, epoch: int, arrived_ms: int, now_ms: int) -> bool:
        """Accept a heartbeat, unless it arrived before its sender was believed to have ended."""
        believed = self._believed.get(broker_id)
        if believed is None or believed.epoch != epoch:
            return True
        if arrived_ms <= believed.at_ms:
            return False
        del self._believed[broker_id]
        self._ignored_until_ms = now_ms + IGNORED_AFTER_MISTAKE_MS
        self.log_lines.append(
            f"broker {broker_id} is alive although it refused a connection: for the next five "
            "minutes brokers are fenced only after their session timeout"
        )
        return True
