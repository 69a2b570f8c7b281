"""`OwnBroker`: the broker in the process of an active controller."""

from __future__ import annotations

from kraftlog.part import Part
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.node.broker.broker_lifecycle import BrokerLifecycle
    from kraftlog.node.controller.active_controller import ActiveController
    from kraftlog.types import Now


class OwnBroker(Part):
    """Keeps the broker's session while its heartbeat waits for a response: it is alive."""

    def __init__(self, lifecycle: BrokerLifecycle, active_controller: ActiveController) -> None:
        self._lifecycle = lifecycle
        self._active_controller = active_controller

    def poll(self, now: Now) -> None:
        if self._lifecycle.is_in_flight:
            self._active_controller.extend_own_broker_session(self._lifecycle.epoch, now)
