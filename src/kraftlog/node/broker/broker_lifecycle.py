"""The broker's registration, heartbeats and controlled shutdown."""

from __future__ import annotations

from kraftlog.backoff import Backoff
from kraftlog.errors import ErrorCode
from kraftlog.metadata.changes import BrokerChanged
from kraftlog.metadata.features import OFFERED
from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.node.broker.registration_refusals import UNKNOWN, RegistrationRefusals
from kraftlog.node.channels import HEARTBEAT_CHANNEL
from kraftlog.part import Part
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.messages import broker_heartbeat as heartbeats
from kraftlog.wire.messages import broker_registration as registrations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from kraftlog.metadata.changes import Change
    from kraftlog.metadata.image import Image
    from kraftlog.metadata.loader import MetadataLoader
    from kraftlog.metadata.values import BrokerImage
    from kraftlog.node.broker.controller_channel import ControllerChannel
    from kraftlog.node.config import BrokerAddress
    from kraftlog.node.controller_request import OnDone
    from kraftlog.ports.logs import Directory
    from kraftlog.types import Now, Uuid
    from kraftlog.wire.schema import Message

#: First and longest backoff after a failed request.
RETRY_MS, LONGEST_RETRY_MS = 50, 500
#: An offset that no log reaches.
NEVER = 1 << 63


class BrokerLifecycle(Part, MetadataPublisher):
    """`epoch` is the broker epoch of this incarnation, from its registration.

    `on_registered` is called when the registration of this incarnation is replayed, and again at
    each later change of a broker.
    """

    task = "sending a registration or heartbeat of the broker"
    name = "broker lifecycle"

    def __init__(
        self,
        *,
        broker_id: int,
        cluster_id: Callable[[], str | None],
        incarnation: Uuid,
        directories: Sequence[Directory],
        cordoned: Callable[[], tuple[Uuid, ...]],
        unwritable: Callable[[], tuple[Uuid, ...]],
        addresses: Sequence[BrokerAddress],
        rack: str | None,
        heartbeat_ms: int,
        session_ms: int,
        controller_channel: ControllerChannel,
        applied: Callable[[], int],
        metadata: MetadataLoader,
        on_registered: Callable[[], None],
        has_opened_logs: Callable[[], bool],
        is_alone: Callable[[], bool],
        log_line: Callable[[str], None],
        stop: Callable[[str], None],
        previous_epoch: int = UNKNOWN,
    ) -> None:
        """`previous_epoch` is that of the last incarnation if it has shut down cleanly (KIP-966).

        Heartbeats keep the broker fenced until `has_opened_logs` (V5). `stop` ends the node.
        """
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        #: The incarnation id of this process.
        self.incarnation = incarnation
        self._directories = directories
        self._cordoned = cordoned
        self._all_unwritable = unwritable
        self._addresses = addresses
        self._rack = rack
        self._heartbeat_ms = heartbeat_ms
        #: A lost heartbeat is sent again before the session times out.
        self._timeout_ms = session_ms // 2
        self._controller_channel = controller_channel
        #: The end offset of the replayed metadata.
        self._applied = applied
        self._metadata = metadata
        self._on_registered = on_registered
        self._has_opened_logs = has_opened_logs
        self._is_alone = is_alone
        #: The offline, the cordoned and the unwritable directories in the last heartbeat.
        self._reported: tuple[tuple[Uuid, ...], ...] = (), (), ()
        self._previous_epoch = previous_epoch
        #: The epoch that a clean shutdown stores; the previous one until the registration.
        self.last_epoch = previous_epoch
        #: Whether the broker may be unfenced; logs that are added later do not fence it again.
        self._is_ready = False
        #: Whether the last heartbeat wanted the broker to stay fenced (want_fence).
        self._stays_fenced = False
        self.epoch = UNKNOWN
        self.is_fenced = True
        self.wants_to_leave = False
        #: Whether the controlled shutdown is over.
        self.has_left = False
        #: A heartbeat is due once records beyond this offset are applied: a broker in controlled
        #: shutdown waits until all others have applied the change of leaders (V3).
        self._heartbeat_beyond_offset = NEVER
        self._due_ms = 0
        self._in_flight = False
        self._backoff = Backoff(RETRY_MS, LONGEST_RETRY_MS)
        #: The error code of the last refused registration.
        self.registration_error = 0
        self._refusals = RegistrationRefusals(broker_id, session_ms, metadata, log_line, stop)

    @property
    def registration(self) -> BrokerImage | None:
        """The replayed registration of this process; None before it is replayed."""
        me = self._metadata.image.brokers.get(self._broker_id)
        return me if me is not None and me.incarnation_id == self.incarnation else None

    @property
    def known_epoch(self) -> int:
        """`epoch`, or that of the replayed registration until its response is here.

        A follower that has replayed its registration fetches: without an epoch its requests could
        not be told from those of a later process (V23).
        """
        if self.epoch == UNKNOWN and self.registration is not None:
            return self.registration.epoch
        return self.epoch

    @property
    def is_unfenced(self) -> bool:
        """Whether heartbeats and the log both report the broker as unfenced."""
        me = self.registration
        if me is None or me.fenced or me.epoch != self.epoch:
            return False
        return not self.is_fenced

    def changed(self, change: Change) -> None:
        if isinstance(change, BrokerChanged) and self.registration is not None:
            self._on_registered()
            if self._another_leaves:
                self._heartbeat_beyond_offset = min(self._heartbeat_beyond_offset, self._applied())

    @property
    def _another_leaves(self) -> bool:
        """Whether another broker is in controlled shutdown, and waits for what this one applies."""
        return any(
            broker.in_controlled_shutdown and not broker.fenced
            for broker in self._metadata.image.brokers.values()
            if broker.id != self._broker_id
        )

    def reloaded(self, before: Image) -> None:  # noqa: ARG002 - interface of publishers
        if self.registration is not None:
            self._on_registered()

    def deadline(self) -> int | None:
        """When the next request is due: at once if a heartbeat has something new to report."""
        if self._in_flight or self.has_left:
            return None
        if self._stays_fenced and self._has_opened_logs():
            return 0
        if self._applied() > self._heartbeat_beyond_offset:
            return 0
        if not self.is_fenced and self._directory_states != self._reported:
            return 0
        return self._due_ms

    @property
    def is_in_flight(self) -> bool:
        """Whether a request has no response yet; requests forwarded to a new leader wait for it."""
        return self._in_flight

    @property
    def is_backing_off(self) -> bool:
        """Whether the last request has failed, so that the next one waits."""
        return self._backoff.has_failed

    def send_soon(self) -> None:
        """Send the next request at once."""
        self._due_ms = 0
        self._backoff.reset()

    def _back_off(self, now: Now) -> None:
        """Retry with backoff after an error or a timeout."""
        self._due_ms = now.monotonic_ms + self._backoff.next_ms()

    def postpone(self, now: Now) -> None:
        """`poll` has raised: retry as after a timeout."""
        self._in_flight = False
        self._back_off(now)

    def leave(self) -> None:
        """Begin a controlled shutdown."""
        self.wants_to_leave = True
        self._due_ms = 0

    def poll(self, now: Now) -> None:
        due_ms = self.deadline()
        if due_ms is None or due_ms > now.monotonic_ms:
            return
        self._stays_fenced = False
        self._heartbeat_beyond_offset = self._applied() if self._another_leaves else NEVER
        cluster_id = self._cluster_id()
        if cluster_id is None:
            self._back_off(now)  # until the metadata log has the cluster id
            return
        self._in_flight = True
        if self.epoch == UNKNOWN:
            request = self._registration_request(cluster_id)
            self._send_request(ApiKey.BROKER_REGISTRATION, request, self._on_registration, now)
        else:
            self._send_request(
                ApiKey.BROKER_HEARTBEAT, self._heartbeat_request(), self._on_heartbeat, now
            )

    def _send_request(self, api_key: int, request: Message, on_done: OnDone, now: Now) -> None:
        def on_response(response: Any, now: Now) -> None:
            self._in_flight = False
            self._back_off(now)  # until `on_done` has handled a successful response
            on_done(response, now)
            if response is not None:
                self._controller_channel.leader_found(now)

        self._controller_channel.send(
            api_key,
            APIS[api_key].last,
            request,
            on_response,
            now,
            channel=HEARTBEAT_CHANNEL,
            timeout_ms=self._timeout_ms,
        )

    def _registration_request(self, cluster_id: str) -> registrations.BrokerRegistrationRequest:
        return registrations.BrokerRegistrationRequest(
            broker_id=self._broker_id,
            cluster_id=cluster_id,
            incarnation_id=self.incarnation,
            listeners=[
                registrations.Listener(
                    name=it.name, host=it.host, port=it.port, security_protocol=it.security_protocol
                )
                for it in self._addresses
            ],
            features=[
                registrations.Feature(
                    name=name, min_supported_version=low, max_supported_version=high
                )
                for name, (low, high) in OFFERED.items()
            ],
            rack=self._rack,
            log_dirs=[it.id for it in self._directories],
            previous_broker_epoch=self._previous_epoch,
            replaced_broker_epoch=self._refusals.replaced_epoch(),
        )

    def _on_registration(self, response: Any, now: Now) -> None:
        if response is None or response.error_code == ErrorCode.NOT_CONTROLLER:
            return
        if self._refusals.is_outdated(response):
            self.send_soon()
            return
        if response.error_code:
            self.registration_error = response.error_code
            self._refusals.refused(self.registration_error, now)
            return
        self._refusals.accepted(now)
        self.epoch = self.last_epoch = response.broker_epoch
        self.send_soon()

    def _heartbeat_request(self) -> heartbeats.BrokerHeartbeatRequest:
        self._is_ready = self._is_ready or self._has_opened_logs()
        self._stays_fenced = not self._is_ready
        self._reported = offline, cordoned, unwritable = self._directory_states
        return heartbeats.BrokerHeartbeatRequest(
            broker_id=self._broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._applied() - 1,
            want_fence=self._stays_fenced,
            want_shut_down=self.wants_to_leave,
            offline_log_dirs=offline,
            cordoned_log_dirs=self._changed_cordoned(cordoned),
            unwritable_log_dirs=self._changed_unwritable(unwritable),
        )

    @property
    def _directory_states(self) -> tuple[tuple[Uuid, ...], ...]:
        """The directories to report as offline, as cordoned and as unwritable."""
        return self._offline, self._cordoned(), self._unwritable

    def _changed_cordoned(self, cordoned: tuple[Uuid, ...]) -> tuple[Uuid, ...] | None:
        """The cordoned directories if they differ from the registered ones, else None: no change.

        As in Kafka, heartbeats report them, not the registration: only a broker that has replayed
        the metadata knows its dynamic config.
        """
        me = self.registration
        return cordoned if me is not None and cordoned != (me.cordoned or ()) else None

    def _changed_unwritable(self, unwritable: tuple[Uuid, ...]) -> tuple[Uuid, ...] | None:
        """The directories that cannot be written if the registered ones differ, else None."""
        me = self.registration
        return unwritable if me is not None and {*unwritable} != {*me.unwritable} else None

    @property
    def _unwritable(self) -> tuple[Uuid, ...]:
        """The directories to report as unwritable; none if no other broker could lead instead."""
        unwritable = self._all_unwritable()
        return () if unwritable and self._is_alone() else unwritable

    @property
    def _offline(self) -> tuple[Uuid, ...]:
        """The directories to report as offline (V18).

        A lone broker whose directories are all offline reports none: it goes on serving what it
        can still read.
        """
        offline = tuple([it.id for it in self._directories if it.is_offline])
        return () if len(offline) == len(self._directories) and self._is_alone() else offline

    def _on_heartbeat(self, response: Any, now: Now) -> None:
        if response is None or response.error_code == ErrorCode.NOT_CONTROLLER:
            return
        self._backoff.reset()
        self._due_ms = now.monotonic_ms + RETRY_MS
        if response.error_code == ErrorCode.STALE_BROKER_EPOCH:
            self.epoch = UNKNOWN
            return
        self.is_fenced = response.is_fenced
        if self.wants_to_leave:
            self.has_left = response.should_shut_down
        elif not response.is_fenced or self._stays_fenced or self._reported[0]:
            self._due_ms = now.monotonic_ms + self._heartbeat_ms
