"""`RegistrationRefusals`: logs why the controller refuses this broker, and what that means.

After a crash the former process is still registered until its session ends, so a duplicate is
harmless at first. A refusal that outlasts that session means that another broker has this id. A
broker that does not support a feature level of the cluster ends.
"""

from __future__ import annotations

from kraftlog.config.endpoints import bracketed
from kraftlog.effects import printable
from kraftlog.errors import ErrorCode, error_name
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.metadata.loader import MetadataLoader
    from kraftlog.metadata.values import BrokerImage
    from kraftlog.types import Now
    from kraftlog.wire.messages.broker_registration import BrokerRegistrationResponse


#: Minimum time between two log lines with the same reason, if it alternates with another one.
REPEAT_MS = 60_000
#: The broker epoch while this process, or any with its id, is not registered.
UNKNOWN = -1


class RegistrationRefusals:
    """Also finds the broker epoch that a registration names as the one that it replaces.

    So a registration cannot replace a newer one, however long it is delayed in the network (V23).
    """

    def __init__(
        self,
        broker_id: int,
        session_ms: int,
        metadata: MetadataLoader,
        log_line: Callable[[str], None],
        stop: Callable[[str], None],
    ) -> None:
        self._broker_id = broker_id
        self._session_ms = session_ms
        self._metadata = metadata
        self._log_line = log_line
        #: The broker epoch that the last registration has named, and that of the last refusal.
        self._named_epoch = UNKNOWN
        self._refused_for_epoch: int | None = None
        self._stop = stop
        self._code = int(ErrorCode.NONE)
        self._since_ms = 0
        self._has_logged_other_broker = False
        #: When each line was logged, by its code and whether it says that another broker runs.
        self._logged_ms: dict[tuple[int, bool], int] = {}

    def replaced_epoch(self) -> int:
        """The broker epoch that the next registration replaces: of the last refusal, if any."""
        registered = self._metadata.image.brokers.get(self._broker_id)
        if self._refused_for_epoch is not None:
            self._named_epoch = self._refused_for_epoch
        else:
            self._named_epoch = UNKNOWN if registered is None else registered.epoch
        return self._named_epoch

    def is_outdated(self, response: BrokerRegistrationResponse) -> bool:
        """Whether a registration is refused because it replaces another epoch than it has named."""
        if response.error_code != ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return False
        self._refused_for_epoch = response.broker_epoch
        return self._refused_for_epoch != self._named_epoch

    def refused(self, code: int, now: Now) -> None:
        """Log each reason once; if a duplicate lasts, log once that another broker runs.

        A duplicate lasts if it is refused for more than twice the session timeout, as a new
        controller restarts the session. Reasons that alternate are repeated rarely.
        """
        if code == ErrorCode.UNSUPPORTED_VERSION:
            self._stop_at_unsupported_levels()
        if code != self._code:
            self._code, self._since_ms = code, now.monotonic_ms
            self._has_logged_other_broker = False
            why = (
                f": {self._duplicate_text()}"
                if code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
                else ""
            )
            self._log_rarely(
                (code, False),
                f"the controller refused the registration of this broker: {error_name(code)}{why}",
                now,
            )
            return
        refused_ms = now.monotonic_ms - self._since_ms
        is_duplicate = code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        if is_duplicate and not self._has_logged_other_broker and refused_ms > 2 * self._session_ms:
            self._has_logged_other_broker = True
            self._log_rarely((code, True), self._another_broker_text(refused_ms // 1000), now)

    def _stop_at_unsupported_levels(self) -> None:
        """End the node if a replayed feature level explains the refusal; else it may be replayed.

        No retry can succeed before an operator changes the level, and until then the node would
        look as if it ran.
        """
        from kraftlog.metadata.unsupported_levels import broker_obstacle

        obstacle = broker_obstacle(self._metadata.image.features)
        if obstacle:
            self._stop(f"the controller refused to register this broker: {obstacle}")

    def accepted(self, now: Now) -> None:
        """The broker is registered."""
        self._refused_for_epoch = None
        if self._code:
            seconds = (now.monotonic_ms - self._since_ms) // 1000
            self._log_line(f"the controller has registered this broker, after {seconds} s")
            self._code = ErrorCode.NONE
            self._logged_ms.clear()

    def _log_rarely(self, key: tuple[int, bool], line: str, now: Now) -> None:
        logged_ms = self._logged_ms.get(key)
        if logged_ms is None or now.monotonic_ms - logged_ms >= REPEAT_MS:
            self._logged_ms[key] = now.monotonic_ms
            self._log_line(line)

    def _duplicate_text(self) -> str:
        return (
            f"a process is registered as broker {self._broker_id}{self._address_text()}, and "
            "its session has not ended. After a crash this is harmless: the former session ends "
            f"within broker.session.timeout.ms={self._session_ms}, and then this broker starts. It "
            "keeps retrying"
        )

    def _another_broker_text(self, seconds: int) -> str:
        other = self._registration
        ids = ", ".join([uuid_text(it) for it in other.directories]) if other is not None else ""
        return (
            f"another broker runs with node.id={self._broker_id}{self._address_text()}"
            f"{ids and f', with the directory ids {ids}'}: the registration of this one has been "
            f"refused for {seconds} s, longer than the session of a dead process lasts. Stop one "
            "of the two, and give it a node.id and log.dirs of its own. This one keeps retrying, "
            "and serves no client"
        )

    @property
    def _registration(self) -> BrokerImage | None:
        """The registration with this broker's id, if the log has one."""
        return self._metadata.image.brokers.get(self._broker_id)

    def _address_text(self) -> str:
        other = self._registration
        if other is None or not other.endpoints:
            return ""
        return f" at {bracketed(printable(other.endpoints[0].host))}:{other.endpoints[0].port}"
