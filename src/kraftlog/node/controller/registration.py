"""`ControllerRegistration`: a controller that is not a voter registers with the active controller.

The record has its endpoints, so that it can be made a voter by its id alone (R2). The endpoints of
voters are in the voters record. As in Kafka, each process registers once, by its incarnation id
(KIP-919). A voter that an earlier process has registered, as an observer or as a node of Kafka,
registers, too: levels of features are limited to what the registration supports.
"""

from __future__ import annotations

from kraftlog.backoff import Backoff
from kraftlog.metadata.features import OFFERED
from kraftlog.metadata.snapshot import METADATA_VERSION
from kraftlog.part import Part
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from kraftlog.metadata.image import Image
    from kraftlog.node.config import BrokerAddress
    from kraftlog.node.quorum.driver import QuorumDriver
    from kraftlog.types import Now, Uuid
    from kraftlog.wire.schema import Message

#: The first metadata.version with registrations of controllers (3.7-IV0).
REGISTRATIONS_SINCE = 15
#: First and longest backoff after a failed request.
RETRY_MS, LONGEST_RETRY_MS = 50, 1000
#: The version of the ControllerRegistration request.
VERSION = 0


class ControllerRegistration(Part):
    task = "registering this controller"

    def __init__(
        self,
        quorum: QuorumDriver,
        image: Callable[[], Image],
        send: Callable[[int, int, Message, Callable[[Any, Now], None], Now], None],
        incarnation: Uuid,
        endpoints: Sequence[BrokerAddress],
    ) -> None:
        self._quorum = quorum
        self._image = image
        self._send = send
        self._incarnation = incarnation
        self._endpoints = endpoints
        self._in_flight = False
        self._due_ms = 0
        self._backoff = Backoff(RETRY_MS, LONGEST_RETRY_MS)

    @property
    def _is_needed(self) -> bool:
        core, image = self._quorum.core, self._image()
        registered = image.controllers.get(core.me.id)
        if registered is None:
            is_current = core.is_voter
        else:
            is_current = registered.incarnation_id == self._incarnation
        metadata_version = image.features.get(METADATA_VERSION, 0)
        has_version = metadata_version >= REGISTRATIONS_SINCE
        return has_version and bool(self._endpoints) and not is_current

    def deadline(self) -> int | None:
        return None if self._in_flight or not self._is_needed else self._due_ms

    def send_soon(self) -> None:
        """The leader has changed: send the next request at once."""
        self._due_ms = 0
        self._backoff.reset()

    def postpone(self, now: Now) -> None:
        """`poll` has raised: retry as after a timeout."""
        self._in_flight = False
        self._back_off(now)

    def poll(self, now: Now) -> None:
        due_ms = self.deadline()
        if due_ms is None or due_ms > now.monotonic_ms:
            return
        if not self._quorum.core.role.has_live_leader(self._quorum.core):
            self._back_off(now)
            return
        self._in_flight = True
        self._send(ApiKey.CONTROLLER_REGISTRATION, VERSION, self._request(), self._on_done, now)

    def _request(self) -> ControllerRegistrationRequest:
        return ControllerRegistrationRequest(
            controller_id=self._quorum.core.me.id,
            incarnation_id=self._incarnation,
            zk_migration_ready=False,
            listeners=[
                Listener(
                    name=it.name, host=it.host, port=it.port, security_protocol=it.security_protocol
                )
                for it in self._endpoints
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in OFFERED.items()
            ],
        )

    def _on_done(self, _: Any, now: Now) -> None:
        """Back off even after success: the record may not be replayed yet."""
        self._in_flight = False
        self._back_off(now)

    def _back_off(self, now: Now) -> None:
        self._due_ms = now.monotonic_ms + self._backoff.next_ms()
