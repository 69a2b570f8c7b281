"""BrokerLifecycle: registration, heartbeats and their backoff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.metadata.loader import MetadataLoader
from kraftlog.metadata.values import BrokerImage
from kraftlog.node.broker.broker_lifecycle import LONGEST_RETRY_MS, BrokerLifecycle
from kraftlog.node.broker.registration_refusals import RegistrationRefusals
from kraftlog.node.channels import HEARTBEAT_CHANNEL
from kraftlog.types import Now
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.broker_heartbeat import BrokerHeartbeatResponse
from kraftlog.wire.messages.broker_registration import BrokerRegistrationResponse
from kraftlog.wire.messages.metadata_records import (
    BrokerEndpoint,
    FeatureLevelRecord,
    RegisterBrokerRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Controller:
    """Registers the broker, and unfences it unless it asks to stay fenced."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.is_unreachable = False

    def send(
        self, api_key: int, _: int, request: Any, on_done: Any, now: Now, **options: object
    ) -> None:
        assert options == {"channel": HEARTBEAT_CHANNEL, "timeout_ms": 4500}, (
            "on a channel and with a timeout of their own"
        )
        self.requests.append(request)
        if self.is_unreachable:
            on_done(None, now)
            return
        if api_key == ApiKey.BROKER_REGISTRATION:
            on_done(BrokerRegistrationResponse(error_code=0, broker_epoch=11), now)
            return
        is_fenced = request.want_fence
        response = BrokerHeartbeatResponse(
            error_code=0, is_caught_up=True, is_fenced=is_fenced, should_shut_down=False
        )
        on_done(response, now)

    def leader_found(self, now: Now) -> None:
        """No other request waits for a leader."""


class RefusingChannel:
    """A ControllerChannel on which every request gets this error code, or no response."""

    def __init__(self, code: int | None) -> None:
        self.code = code
        self.times: list[int] = []

    def send(self, _: int, __: int, ___: Any, on_done: Any, now: Now, **____: object) -> None:
        self.times.append(now.monotonic_ms)
        response = None
        if self.code is not None:
            response = BrokerRegistrationResponse(error_code=self.code, broker_epoch=-1)
        on_done(response, now)

    def leader_found(self, now: Now) -> None:
        """No other request waits for a leader."""


class Disk:
    """A log directory that may fail."""

    def __init__(self, directory_id: bytes = b"d" * 16) -> None:
        self.id = directory_id
        self.path = "data"
        self.is_offline = False

    def space(self) -> tuple[int, int]:
        return -1, -1


def lifecycle(
    controller_channel: RefusingChannel | Controller,
    has_opened_logs: Callable[[], bool] = lambda: True,
    directories: Sequence[Disk] = (),
    *,
    is_alone: bool = False,
    unwritable: Callable[[], tuple[bytes, ...]] = tuple,
    log_line: Callable[[str], None] = lambda _: None,
    applied: Callable[[], int] = lambda: 0,
    metadata: MetadataLoader | None = None,
    stop: Callable[[str], None] = lambda _: None,
) -> BrokerLifecycle:
    return BrokerLifecycle(
        broker_id=4,
        cluster_id=lambda: "cluster",
        incarnation=b"i" * 16,
        directories=directories or [Disk()],
        cordoned=lambda: (),
        unwritable=unwritable,
        addresses=(),
        rack=None,
        heartbeat_ms=2000,
        session_ms=9000,
        controller_channel=controller_channel,  # type: ignore[arg-type]  # it has the methods that are used
        applied=applied,
        metadata=metadata or MetadataLoader(),
        on_registered=lambda: None,
        has_opened_logs=has_opened_logs,
        is_alone=lambda: is_alone,
        log_line=log_line,
        stop=stop,
        previous_epoch=7,
    )


def poll_until(broker: BrokerLifecycle, end_ms: int) -> None:
    while (due := broker.deadline()) is not None and due < end_ms:
        broker.poll(Now(due, 0))


@pytest.mark.parametrize("code", [ErrorCode.DUPLICATE_BROKER_REGISTRATION, None])
def test_an_unregistered_broker_retries_with_backoff(code: int | None) -> None:
    controller_channel = RefusingChannel(code)
    broker = lifecycle(controller_channel)
    poll_until(broker, 10_000)
    gaps = [
        after - before
        for before, after in zip(
            controller_channel.times, controller_channel.times[1:], strict=False
        )
    ]
    assert gaps[:4] == [50, 100, 200, 400]
    assert set(gaps[4:]) == {LONGEST_RETRY_MS}
    assert broker.registration_error == (code or 0)


class ReplacingController(Controller):
    """Registers a broker that names epoch 8 as the one that it replaces."""

    def send(
        self, api_key: int, _: int, request: Any, on_done: Any, now: Now, **options: object
    ) -> None:
        if api_key != ApiKey.BROKER_REGISTRATION or request.replaced_broker_epoch == 8:
            super().send(api_key, _, request, on_done, now, **options)
            return
        self.requests.append(request)
        code = ErrorCode.DUPLICATE_BROKER_REGISTRATION
        on_done(BrokerRegistrationResponse(error_code=code, broker_epoch=8), now)


def test_v23_a_refused_registration_names_the_right_epoch_at_once() -> None:
    """V5: a restart within the former session takes one more request, and logs nothing."""
    controller, lines = ReplacingController(), list[str]()
    broker = lifecycle(controller, log_line=lines.append)
    poll_until(broker, 1)
    epochs = [request.replaced_broker_epoch for request in controller.requests[:2]]
    assert (epochs, broker.epoch, lines) == ([-1, 8], 11, [])


def test_a_duplicate_registration_is_harmless_while_a_session_lasts() -> None:
    """A refusal for longer than a session shows that another broker with this id is running."""
    lines: list[str] = []
    broker = lifecycle(
        RefusingChannel(ErrorCode.DUPLICATE_BROKER_REGISTRATION), log_line=lines.append
    )
    poll_until(broker, 18_000)
    [first] = lines
    assert first == (
        "the controller refused the registration of this broker: DUPLICATE_BROKER_REGISTRATION: a "
        "process is registered as broker 4, and its session has not ended. After a crash this is "
        "harmless: the former session ends within broker.session.timeout.ms=9000, "
        "and then this broker starts. It keeps retrying"
    )
    poll_until(broker, 40_000)
    [second] = lines[1:]
    assert second == (
        "another broker runs with node.id=4: the registration of this one has been refused for 18 "
        "s, longer than the session of a dead process lasts. Stop one of the two, and give it a "
        "node.id and log.dirs of its own. This one keeps retrying, and serves no client"
    )


def test_a_registration_after_a_refusal_is_logged() -> None:
    lines: list[str] = []
    refusals = RegistrationRefusals(4, 9000, MetadataLoader(), lines.append, lines.append)
    refusals.accepted(Now(0, 0))
    assert lines == []
    refusals.refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, Now(1000, 0))
    refusals.accepted(Now(8500, 0))
    refusals.accepted(Now(9000, 0))
    assert lines[1:] == ["the controller has registered this broker, after 7 s"]


def test_alternating_refusals_are_each_logged_once_a_minute() -> None:
    lines: list[str] = []
    refusals = RegistrationRefusals(4, 9000, MetadataLoader(), lines.append, lines.append)
    for second in range(0, 60, 2):
        refusals.refused(ErrorCode.NOT_CONTROLLER, Now(second * 1000, 0))
        refusals.refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, Now(second * 1000 + 1000, 0))
    assert len(lines) == 2
    refusals.refused(ErrorCode.NOT_CONTROLLER, Now(60_000, 0))
    assert len(lines) == 3


def test_the_host_of_another_broker_cannot_forge_a_line() -> None:
    lines: list[str] = []
    endpoint = BrokerEndpoint(
        name="PLAINTEXT", host="host\nforged" + "x" * 1000, port=9092, security_protocol=0
    )
    other = BrokerImage(4, 1, b"i" * 16, (endpoint,))
    metadata = MetadataLoader()
    metadata.image.brokers[4] = other
    refusals = RegistrationRefusals(4, 9000, metadata, lines.append, lines.append)
    refusals.refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, Now(0, 0))
    [line] = lines
    assert f"broker 4 at host?forged{'x' * 89}...:9092, and its" in line


def test_a_leader_change_resets_the_backoff() -> None:
    """A new leader may accept the broker, so the backoff starts again."""
    controller_channel = RefusingChannel(None)
    broker = lifecycle(controller_channel)
    poll_until(broker, 10_000)
    broker.send_soon()
    broker.poll(Now(10_000, 0))
    assert controller_channel.times[-1] == 10_000
    assert broker.deadline() == 10_050


def test_v5_a_broker_asks_to_stay_fenced_until_its_logs_are_open() -> None:
    controller, are_open = Controller(), False
    broker = lifecycle(controller, lambda: are_open)
    poll_until(broker, 10_000)
    registration, *heartbeats = controller.requests
    assert registration.previous_broker_epoch == 7
    assert all(each.want_fence for each in heartbeats)
    assert len(heartbeats) == 10_000 // 2000, "as often as any broker"
    are_open = True
    assert broker.deadline() == 0, "the broker reports it at once"
    broker.poll(Now(10_000, 0))
    assert not controller.requests[-1].want_fence
    are_open = False
    poll_until(broker, 20_000)
    assert not controller.requests[-1].want_fence, "a log that is added later does not fence it"


def other_broker(*, fenced: bool = False) -> RegisterBrokerRecord:
    """The registration of broker 5, which is in controlled shutdown."""
    return RegisterBrokerRecord(
        broker_id=5,
        incarnation_id=bytes(16),
        broker_epoch=1,
        end_points=(),
        features=(),
        rack=None,
        fenced=fenced,
        in_controlled_shutdown=True,
    )


def test_v3_v24_what_a_leaving_broker_waits_for_is_reported_at_once() -> None:
    """It waits until this one has applied some offset, which a new controller has to choose."""
    controller, applied, metadata = Controller(), 10, MetadataLoader()
    broker = lifecycle(controller, applied=lambda: applied, metadata=metadata)
    poll_until(broker, 1000)
    metadata.image.replay(other_broker())
    broker.send_soon()
    broker.poll(Now(1000, 0))
    for _ in range(3):
        assert (broker.deadline() or 0) > 1000
        applied += 1
        assert broker.deadline() == 0
        broker.poll(Now(1000, 0))
        assert controller.requests[-1].current_metadata_offset == applied - 1
    metadata.image.replay(other_broker(fenced=True))
    applied += 1
    broker.poll(Now(1000, 0))
    applied += 1
    assert (broker.deadline() or 0) > 1000, "it has left"


@pytest.mark.parametrize(("incarnation", "known"), [(b"i" * 16, 12), (bytes(16), -1)])
def test_v23_a_replayed_registration_tells_the_broker_epoch(incarnation: bytes, known: int) -> None:
    """Its response may come later than its record: followers fetch before, and name the epoch."""
    metadata = MetadataLoader()
    broker = lifecycle(RefusingChannel(None), metadata=metadata)
    assert broker.known_epoch == -1
    record = other_broker().replace(broker_id=4, incarnation_id=incarnation, broker_epoch=12)
    metadata.image.replay(record)
    assert (broker.epoch, broker.known_epoch) == (-1, known)


def test_v18_heartbeats_report_an_offline_directory() -> None:
    controller, working, failing = Controller(), Disk(b"a" * 16), Disk(b"b" * 16)
    broker = lifecycle(controller, directories=[working, failing])
    poll_until(broker, 3000)
    registration, *heartbeats = controller.requests
    assert registration.log_dirs == [working.id, failing.id]
    assert not heartbeats[-1].offline_log_dirs
    failing.is_offline = True
    assert broker.deadline() == 0, "the broker reports it at once"
    broker.poll(Now(3000, 0))
    assert controller.requests[-1].offline_log_dirs == (failing.id,)
    poll_until(broker, 8000)
    assert len(controller.requests) - len(heartbeats) <= 5, "then as often as any broker"


def reported(controller: Controller) -> object:
    return controller.requests[-1].unwritable_log_dirs


def test_v18_heartbeats_report_directories_that_cannot_be_written() -> None:
    """At once; then until the registration has them, as a request may get lost."""
    controller, unwritable = Controller(), list[bytes]()
    broker = lifecycle(controller, unwritable=lambda: tuple(unwritable))
    metadata = broker._metadata
    registered = RegisterBrokerRecord(
        broker_id=4, incarnation_id=b"i" * 16, broker_epoch=0, end_points=(), features=(), rack=None
    )
    metadata.image.replay(registered)
    poll_until(broker, 3000)
    assert reported(controller) is None, "nothing differs"
    unwritable.append(b"a" * 16)
    assert broker.deadline() == 0, "the broker reports it at once"
    for time_ms in (3000, 8000):
        broker.poll(Now(time_ms, 0))
        assert reported(controller) == (b"a" * 16,)
        assert broker.deadline() != 0
    metadata.image.replay(registered.replace(unwritable_log_dirs=(b"a" * 16,)))
    poll_until(broker, 20_000)
    assert reported(controller) is None
    unwritable.clear()
    broker.poll(Now(20_000, 0))
    assert reported(controller) == ()


def test_a_sole_broker_does_not_report_directories_that_cannot_be_written() -> None:
    """No other broker could lead instead, and its full disk needs no further records."""
    controller = Controller()
    broker = lifecycle(controller, unwritable=lambda: (b"a" * 16,), is_alone=True)
    poll_until(broker, 3000)
    assert not controller.requests[-1].unwritable_log_dirs


@pytest.mark.parametrize(("failed", "reported"), [((0,), (b"a" * 16,)), ((0, 1), ())])
def test_v18_a_sole_broker_reports_failed_directories_only_if_one_works(
    failed: tuple[int, ...], reported: tuple[bytes, ...]
) -> None:
    """To report all would fence the broker, which is useless: no other one has its replicas."""
    controller, disks = Controller(), [Disk(b"a" * 16), Disk(b"b" * 16)]
    broker = lifecycle(controller, directories=disks, is_alone=True)
    poll_until(broker, 3000)
    for number in failed:
        disks[number].is_offline = True
    poll_until(broker, 8000)
    assert tuple(controller.requests[-1].offline_log_dirs) == reported


def test_v5_a_broker_with_open_logs_backs_off_without_a_controller() -> None:
    controller, are_open = Controller(), False
    broker = lifecycle(controller, lambda: are_open)
    poll_until(broker, 1000)
    controller.is_unreachable, before = True, len(controller.requests)
    are_open = True
    poll_until(broker, 3000)
    assert len(controller.requests) - before < 10


def test_a_refusal_for_an_unsupported_feature_level_ends_the_node() -> None:
    """It retries only until the level is replayed, which explains the refusal."""
    stops: list[str] = []
    broker = lifecycle(RefusingChannel(ErrorCode.UNSUPPORTED_VERSION), stop=stops.append)
    poll_until(broker, 1000)
    assert stops == []
    image = broker._metadata.image
    image.replay(FeatureLevelRecord(name="metadata.version", feature_level=33))
    image.replay(FeatureLevelRecord(name="share.version", feature_level=1))
    broker.poll(Now(2000, 0))
    [reason] = stops
    assert (
        "the controller refused to register this broker: the cluster has share.version=1" in reason
    )
    assert "downgrade --feature share.version=0" in reason
