"""A broker's life in the cluster: how often it asks to be let in."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.metadata.loader import MetadataLoader
from kraftlog.node.broker.broker_lifecycle import LONGEST_RETRY_MS, BrokerLifecycle
from kraftlog.types import Now
from kraftlog.wire.messages.broker_registration import BrokerRegistrationResponse


class RefusingChannel:
    """Errands that all end alike: with a code, or unanswered."""

    def __init__(self, code: int | None) -> None:
        self.code = code
        self.times: list[int] = []

    def ask(self, _: int, __: int, ___: Any, outcome: Any, now: Now) -> None:
        self.times.append(now.monotonic_ms)
        response = None
        if self.code is not None:
            response = BrokerRegistrationResponse(error_code=self.code, broker_epoch=-1)
        outcome(response, now)


def lifecycle(controller_channel: RefusingChannel) -> BrokerLifecycle:
    return BrokerLifecycle(
        broker_id=4,
        cluster_id=lambda: "cluster",
        incarnation=b"i" * 16,
        directory_id=b"d" * 16,
        addresses=(),
        rack=None,
        heartbeat_ms=2000,
        controller_channel=controller_channel,  # type: ignore[arg-type]  # the only method that is used
        applied=lambda: 0,
        metadata=MetadataLoader(),
        on_registered=lambda: None,
    )


def ask_until(member: BrokerLifecycle, end_ms: int) -> None:
    while (due := member.deadline()) is not None and due < end_ms:
        member.poll(Now(due, 0))


@pytest.mark.parametrize("code", [ErrorCode.DUPLICATE_BROKER_REGISTRATION, None])
def test_who_is_not_let_in_asks_less_and_less_often(code: int | None) -> None:
    controller_channel = RefusingChannel(code)
    member = lifecycle(controller_channel)
    ask_until(member, 10_000)
    gaps = [
        after - before
        for before, after in zip(
            controller_channel.times, controller_channel.times[1:], strict=False
        )
    ]
    assert gaps[:4] == [50, 100, 200, 400]
    assert set(gaps[4:]) == {LONGEST_RETRY_MS}
    assert member.refusal == (code or 0)


def test_what_has_changed_makes_it_ask_at_once() -> None:
    """Another leader may know better, and be asked as often as the last one at first."""
    controller_channel = RefusingChannel(None)
    member = lifecycle(controller_channel)
    ask_until(member, 10_000)
    member.soon()
    member.poll(Now(10_000, 0))
    assert controller_channel.times[-1] == 10_000
    assert member.deadline() == 10_050
