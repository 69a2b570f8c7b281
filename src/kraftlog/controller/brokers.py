"""Broker registration, heartbeats, fencing and unregistration."""

from __future__ import annotations

from kraftlog.controller.decision import Decision, Refusal
from kraftlog.controller.elections import (
    elect_returned_broker,
    elect_writable,
    remove_failed_directories,
    remove_from_isrs,
    remove_from_isrs_and_elrs,
    remove_from_shared_isrs,
)
from kraftlog.controller.features import is_unsupported_level
from kraftlog.errors import ErrorCode
from kraftlog.metadata.snapshot import METADATA_VERSION
from kraftlog.metadata.values import BrokerImage, is_reserved
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.broker_heartbeat import BrokerHeartbeatResponse
from kraftlog.wire.messages.broker_registration import NOT_SENT, BrokerRegistrationResponse
from kraftlog.wire.messages.controller_registration import ControllerRegistrationResponse
from kraftlog.wire.messages.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from kraftlog.wire.messages.unregister_broker import UnregisterBrokerResponse
from kraftlog.wire.messages.unregister_controller import UnregisterControllerResponse

if TYPE_CHECKING:
    from typing import TypeVar

    from kraftlog.controller.context import Context
    from kraftlog.controller.state import ControllerState
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
    from kraftlog.wire.messages.broker_registration import BrokerRegistrationRequest
    from kraftlog.wire.messages.controller_registration import ControllerRegistrationRequest
    from kraftlog.wire.messages.unregister_broker import UnregisterBrokerRequest
    from kraftlog.wire.messages.unregister_controller import UnregisterControllerRequest
    from kraftlog.wire.schema import Message

    E = TypeVar("E", BrokerEndpoint, ControllerEndpoint)
    F = TypeVar("F", BrokerFeature, ControllerFeature)

#: Values in BrokerRegistrationChangeRecord: clear and set; 0 leaves a field unchanged.
CLEAR, SET = -1, 1
#: The first metadata.version with UnregisterControllerRecord (4.4-IV2).
UNREGISTRATION_SINCE = 33


def decide_register_broker(
    state: ControllerState, request: BrokerRegistrationRequest, context: Context
) -> Decision:
    """Register a broker, fenced until it has caught up (V5)."""
    refusal = _refuse_registration(state, request, context)
    broker_id = request.broker_id
    before = state.brokers.get(broker_id)
    if refusal is not None:
        # A process that is not late repeats its request with this epoch.
        known_epoch = -1 if before is None else before.epoch
        response = BrokerRegistrationResponse(error_code=refusal.code, broker_epoch=known_epoch)
        return Decision([], response)
    if before is not None and _is_late(before, request):
        # A retry or a late copy of the registered process: what was recorded since stays (V23),
        # such as a failed directory.
        return Decision([], BrokerRegistrationResponse(error_code=0, broker_epoch=before.epoch))
    records: list[Message] = []
    if before is not None and before.incarnation_id == request.incarnation_id:
        # The same process registers again: update the registration.
        epoch, fenced = before.epoch, before.fenced
        shutting_down = before.in_controlled_shutdown
    else:
        epoch, fenced, shutting_down = context.next_offset, True, False
        clean = before is not None and request.previous_broker_epoch == before.epoch
        lost_directory = before is None or not {*before.directories} <= {*request.log_dirs}
        if lost_directory:
            clean = False  # replicas of a lost directory may start empty (V18)
        if clean:
            records += remove_from_shared_isrs(state, broker_id)
        elif state.elr_enabled:
            records += remove_from_isrs_and_elrs(state, broker_id, lost_directory=lost_directory)
        else:
            records += remove_from_isrs(state, broker_id, lost_directory=lost_directory)
    records.append(
        RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=request.incarnation_id,
            broker_epoch=epoch,
            end_points=_endpoints(BrokerEndpoint, request),
            features=_features(BrokerFeature, request),
            rack=request.rack,
            fenced=fenced,
            in_controlled_shutdown=shutting_down,
            log_dirs=tuple(request.log_dirs),
        )
    )
    context.sessions.touch(broker_id, epoch, context.now.monotonic_ms)
    return Decision(records, BrokerRegistrationResponse(error_code=0, broker_epoch=epoch))


def _refuse_registration(
    state: ControllerState, request: BrokerRegistrationRequest, context: Context
) -> Refusal | None:
    config, broker_id = context.config, request.broker_id
    if request.cluster_id != config.cluster_id:
        why = f"Expected cluster ID {config.cluster_id}, but got cluster ID {request.cluster_id}"
        return Refusal(ErrorCode.INCONSISTENT_CLUSTER_ID, why)
    before = state.brokers.get(broker_id)
    if before is None or before.incarnation_id != request.incarnation_id:
        is_alive = before is not None and context.sessions.is_valid(
            broker_id, context.now.monotonic_ms
        )
        if _is_late(before, request) or (is_alive and not _replaces(before, request)):
            why = "Another broker is registered with that broker id."
            return Refusal(ErrorCode.DUPLICATE_BROKER_REGISTRATION, why)
    if request.is_migrating_zk_broker:
        why = "Controller does not support registering ZK brokers."
        return Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, why)
    why_invalid = _invalid_listeners(request) or _invalid_directories(state, request)
    if why_invalid is not None:
        return Refusal(ErrorCode.INVALID_REGISTRATION, why_invalid)
    ranges = {
        each.name: (each.min_supported_version, each.max_supported_version)
        for each in request.features
    }
    if METADATA_VERSION not in ranges:
        why = "Request features do not contain 'metadata.version'"
        return Refusal(ErrorCode.INVALID_REGISTRATION, why)
    for name, level in state.features.items():
        if is_unsupported_level(level, ranges.get(name, (0, 0))):
            why = f"Unable to register because the broker does not support {name} {level}."
            return Refusal(ErrorCode.UNSUPPORTED_VERSION, why)
    return None


def _is_late(before: BrokerImage | None, request: BrokerRegistrationRequest) -> bool:
    """Whether the request is from before the present registration with its id (V23).

    It names the broker epoch that it replaces, and so cannot replace one that is newer than itself.
    """
    known_epoch = -1 if before is None else before.epoch
    return request.replaced_broker_epoch not in (NOT_SENT, known_epoch)


def _replaces(before: BrokerImage | None, request: BrokerRegistrationRequest) -> bool:
    """Whether the former process of this broker must have ended, although its session is valid.

    A process locks its directories and binds its addresses. So the process that has one of the
    directories and all addresses is the only one, if it is the latest that has had them: only a
    request that names the epoch that it replaces proves that.
    """
    return (
        before is not None
        and request.replaced_broker_epoch == before.epoch
        and not set(before.directories).isdisjoint(request.log_dirs)
        and tuple(before.endpoints) == tuple(_endpoints(BrokerEndpoint, request))
    )


def _invalid_listeners(request: BrokerRegistrationRequest) -> str | None:
    """The error in the listeners, or None: there must be some, each with a host and a port."""
    if not request.listeners:
        return "No listeners specified in request"
    for listener in request.listeners:
        if not listener.host.strip() or not listener.port:
            return f"Listener {listener.name} has no host or no port"
    return None


def _invalid_directories(state: ControllerState, request: BrokerRegistrationRequest) -> str | None:
    """The error in the log directories, or None."""
    directories = request.log_dirs
    if not directories:
        return "No directories specified in request"
    if any(map(is_reserved, directories)):
        return "Reserved directory ID in request"
    if len(set(directories)) != len(directories):
        return "Duplicate directory ID in request"
    for broker in state.brokers.values():
        if broker.id != request.broker_id and set(directories) & set(broker.directories):
            return f"Broker {broker.id} is already registered with one of these directories"
    return None


# Heartbeats --------------------------------------------------------------------------------------


def decide_broker_heartbeat(
    state: ControllerState, request: BrokerHeartbeatRequest, context: Context
) -> Decision:
    """Handle a heartbeat: unfence (V5), fence, or shut down once leadership is moved (V3)."""
    broker = state.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        refused = BrokerHeartbeatResponse(
            error_code=ErrorCode.STALE_BROKER_EPOCH, should_shut_down=False
        )
        return Decision([], refused)
    now_ms = context.now.monotonic_ms
    if not context.evidence.accept_heartbeat(broker.id, broker.epoch, context.arrived_ms, now_ms):
        outdated = BrokerHeartbeatResponse(error_code=ErrorCode.NONE, should_shut_down=False)
        return Decision([], outdated)
    expected_offset = -1 if broker.fenced else context.committed_offset
    context.sessions.touch(
        broker.id, broker.epoch, now_ms, request.current_metadata_offset, expected_offset
    )
    caught_up = request.current_metadata_offset >= broker.epoch
    is_leaving = request.want_shut_down
    if broker.directories and set(broker.directories) <= set(request.offline_log_dirs):
        # A broker without an online directory hosts nothing. It stays registered with all of
        # its directories.
        request = request.replace(want_fence=True, offline_log_dirs=())
        is_leaving = True
    records, after, shut_down = _next_state(state, broker, request, context, caught_up=caught_up)
    if broker.fenced and is_leaving:
        records += _end_kept_leadership(state, broker)
    records += _changed_directories(state, after, request)
    if not records:
        records += _changed_writability(state, broker, request)
    if shut_down:
        # Without a session, the broker may register again at once when it restarts.
        context.sessions.end(broker.id)
    response = BrokerHeartbeatResponse(
        error_code=ErrorCode.NONE,
        is_caught_up=caught_up,
        is_fenced=after.fenced,
        should_shut_down=shut_down,
    )
    return Decision(records, response)


def _next_state(
    state: ControllerState,
    broker: BrokerImage,
    request: BrokerHeartbeatRequest,
    context: Context,
    *,
    caught_up: bool,
) -> tuple[list[Message], BrokerImage, bool]:
    """The records, the resulting broker state, and whether it may shut down."""
    if broker.fenced:
        # A broker in controlled shutdown must not lead again; it returns by registering again.
        stays_fenced = request.want_shut_down or request.want_fence or broker.in_controlled_shutdown
        # Nor before a failed directory is recorded: the elections would not see it.
        stays_fenced = stays_fenced or bool(_failed(broker, request))
        if stays_fenced or not caught_up:
            return [], broker, request.want_shut_down
        return unfence(state, broker), broker.replace(fenced=False), False
    if request.want_fence:
        return fence(state, broker), broker.replace(fenced=True), request.want_shut_down
    if broker.in_controlled_shutdown:
        return _continue_shutdown(state, broker, context)
    if not request.want_shut_down:
        return [], broker, False
    if not state.index.leads(broker.id):
        return fence(state, broker), broker.replace(fenced=True), True
    context.sessions.begin_shutdown(broker.id, context.next_offset)
    record = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=SET
    )
    moved = remove_from_isrs(state, broker.id)
    return [record, *moved], broker.replace(in_controlled_shutdown=True), False


def _end_kept_leadership(state: ControllerState, broker: BrokerImage) -> list[Message]:
    """End the leadership that a fenced broker has kept since its clean shutdown, if any."""
    return remove_from_isrs(state, broker.id) if state.index.leads(broker.id) else []


def _continue_shutdown(
    state: ControllerState, broker: BrokerImage, context: Context
) -> tuple[list[Message], BrokerImage, bool]:
    """As `_next_state`, for a broker in controlled shutdown.

    It may stop once it leads nothing and all other brokers know the new leaders.
    """
    session = context.sessions.get(broker.id)
    others = (each.id for each in state.brokers.values() if each.active)
    lowest = context.sessions.lowest_offset(others)
    waits = session is not None and lowest is not None and lowest < session.shutdown_offset
    if state.index.leads(broker.id) or waits:
        return [], broker, False
    return fence(state, broker), broker.replace(fenced=True), True


def fence(state: ControllerState, broker: BrokerImage) -> list[Message]:
    """Fence a broker in one batch: remove it from leadership and from every ISR (V2)."""
    record = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, fenced=SET
    )
    return [*remove_from_isrs(state, broker.id), record]


def unfence(state: ControllerState, broker: BrokerImage) -> list[Message]:
    record = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, fenced=CLEAR
    )
    return [record, *elect_returned_broker(state, broker.id)]


def _changed_directories(
    state: ControllerState, broker: BrokerImage, request: BrokerHeartbeatRequest
) -> list[Message]:
    """Remove replicas in failed directories from every ISR (V18); record cordoned ones."""
    records: list[Message] = []
    failed = _failed(broker, request)
    if failed:
        records += remove_failed_directories(state, broker.id, failed)
        left = tuple(each for each in broker.directories if each not in failed)
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=left
            )
        )
    cordoned = request.cordoned_log_dirs
    if cordoned is not None and tuple(cordoned) != broker.cordoned:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=tuple(cordoned)
            )
        )
    return records


def _failed(broker: BrokerImage, request: BrokerHeartbeatRequest) -> list[Uuid]:
    """The directories that a broker reports as offline for the first time."""
    return [each for each in broker.directories if each in request.offline_log_dirs]


def _changed_writability(
    state: ControllerState, broker: BrokerImage, request: BrokerHeartbeatRequest
) -> list[Message]:
    """Record which directories cannot be written at present, and replace leaders in them (V18).

    Nothing else changes with this heartbeat: the elections would not see it.
    """
    reported = request.unwritable_log_dirs
    unwritable = tuple([each for each in broker.directories if each in (reported or ())])
    if reported is None or unwritable == broker.unwritable:
        return []
    record = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, unwritable_log_dirs=unwritable
    )
    moved = elect_writable(state, broker.replace(unwritable=unwritable)) if broker.active else ()
    return [record, *moved]


def decide_fence_stale(state: ControllerState, context: Context) -> list[Message]:
    """Fence a broker with an expired session; one at a time, as each affects the next."""
    while (broker_id := context.sessions.first_expired(context.now.monotonic_ms)) is not None:
        context.sessions.end(broker_id)
        broker = state.brokers.get(broker_id)
        if broker is None:
            continue
        records = _end_kept_leadership(state, broker) if broker.fenced else fence(state, broker)
        if records:
            return records
    return []


# Unregistration, and controllers -----------------------------------------------------------------


def decide_unregister_broker(
    state: ControllerState, request: UnregisterBrokerRequest, context: Context
) -> Decision:
    broker = state.brokers.get(request.broker_id)
    if broker is None:
        why = f"Broker ID {request.broker_id} is not currently registered"
        code = ErrorCode.BROKER_ID_NOT_REGISTERED
        return Decision([], UnregisterBrokerResponse(error_code=code, error_message=why))
    records = remove_from_isrs_and_elrs(state, broker.id)
    records.append(UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))
    context.sessions.end(broker.id)
    return Decision(records, UnregisterBrokerResponse(error_code=ErrorCode.NONE))


def decide_register_controller(
    state: ControllerState,  # noqa: ARG001 - all decisions have these parameters
    request: ControllerRegistrationRequest,
    context: Context,  # noqa: ARG001 - the same
) -> Decision:
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=_endpoints(ControllerEndpoint, request),
        features=_features(ControllerFeature, request),
    )
    return Decision([record], ControllerRegistrationResponse(error_code=ErrorCode.NONE))


def decide_unregister_controller(
    state: ControllerState, request: UnregisterControllerRequest, context: Context
) -> Decision:
    """Remove a controller's registration; one that runs registers again, as in Kafka (KIP-1312)."""
    controller_id = request.controller_id
    if controller_id == context.config.node_id:
        code = ErrorCode.INVALID_REQUEST
        why = "Controller cannot unregister itself while it is active."
    elif state.features.get(METADATA_VERSION, 0) < UNREGISTRATION_SINCE:
        code = ErrorCode.UNSUPPORTED_VERSION
        why = "The current MetadataVersion is too old to support controller unregistration."
    elif controller_id not in state.controllers:
        code = ErrorCode.CONTROLLER_ID_NOT_REGISTERED
        why = f"Controller ID {controller_id} is not currently registered."
    else:
        record = UnregisterControllerRecord(controller_id=controller_id)
        return Decision([record], UnregisterControllerResponse(error_code=ErrorCode.NONE))
    return Decision([], UnregisterControllerResponse(error_code=code, error_message=why))


def _endpoints(
    kind: type[E], request: BrokerRegistrationRequest | ControllerRegistrationRequest
) -> list[E]:
    """The listeners of a request, as the endpoints of a record."""
    return [
        kind(
            name=each.name,
            host=each.host,
            port=each.port,
            security_protocol=each.security_protocol,
        )
        for each in request.listeners
    ]


def _features(
    kind: type[F], request: BrokerRegistrationRequest | ControllerRegistrationRequest
) -> list[F]:
    """The supported features of a request, as those of a record."""
    return [
        kind(
            name=each.name,
            min_supported_version=each.min_supported_version,
            max_supported_version=each.max_supported_version,
        )
        for each in request.features
    ]
