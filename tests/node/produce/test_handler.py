"""The quick check of ordinary batches has the same results as the full checks.

Two nodes get the same requests for several partitions; one of them makes all checks of every batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.config.keys import TOPIC
from kraftlog.replication.append_config import AppendConfig
from kraftlog.wire.messages.produce import PartitionProduceData
from tests.node.frame_client import set_config
from tests.node.produce.test_template import (
    ALTERED_BATCHES,
    BATCHES,
    FALSE_HEADERS,
    PLAIN,
    ConnectionWithoutTemplates,
    Side,
    frame,
)
from tests.node.test_producers import idempotent_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

SETTINGS = (
    ("max.message.bytes", 150),
    ("message.timestamp.type", "LogAppendTime"),
    ("cleanup.policy", "compact"),
    ("compression.type", "gzip"),
    ("message.timestamp.after.max.ms", 100),
)


class CheckingSide(Side):
    """A node that makes all checks of every batch."""

    def send(self, connection: int, frame: bytes) -> None:
        with mock.patch.object(AppendConfig, "stores_as_produced", False):
            super().send(connection, frame)


batches = st.one_of(BATCHES, st.builds(idempotent_batch, st.integers(0, 3), st.integers(1, 3)))
requests = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 2), batches), min_size=1, max_size=5),
        st.sampled_from([-1, 0, 1]),
        st.sampled_from([5, 7, 9, 12]),
    ),
    min_size=1,
    max_size=6,
)


@given(requests=requests, setting=st.none() | st.sampled_from(SETTINGS))
@settings(max_examples=80, deadline=None)
def test_responses_and_logs_are_those_of_the_full_checks(
    requests: Sequence[tuple[list[tuple[int, bytes | None]], int, int]],
    setting: tuple[str, object] | None,
) -> None:
    sides = Side(ConnectionWithoutTemplates), CheckingSide(ConnectionWithoutTemplates)
    for side in sides:
        if setting is not None:
            set_config(side.host, TOPIC, "demo", *setting)
        for number, (parts, acks, version) in enumerate(requests):
            (index, raw), *also = parts
            others = [PartitionProduceData(index=i, records=data) for i, data in also]
            side.send(0, frame(raw, version, acks, index, number, also=others))
            if number % 2:
                side.turn()
        side.turn()
    quick, checking = sides
    assert quick.responses == checking.responses
    assert quick.state() == checking.state()


@pytest.mark.parametrize("version", [6, 9, 12])
def test_any_batch_header_gets_the_response_of_the_full_checks(version: int) -> None:
    """Each header field with valid, wrong and impossible values."""
    quick, checking = Side(ConnectionWithoutTemplates), CheckingSide(ConnectionWithoutTemplates)
    for side in (quick, checking):
        for number, raw in enumerate(
            [PLAIN, idempotent_batch(0), *ALTERED_BATCHES, *FALSE_HEADERS]
        ):
            others = [PartitionProduceData(index=1, records=raw)]
            side.send(0, frame(raw, version, -1, number=number, also=others))
            if not number % 8:
                side.turn()
        side.turn()
    assert quick.responses == checking.responses
    assert quick.state() == checking.state()


@pytest.mark.parametrize(("key", "value"), SETTINGS)
def test_only_settings_that_change_batches_prevent_storing_as_produced(
    key: str, value: object
) -> None:
    side = Side(ConnectionWithoutTemplates)
    partition = next(iter(side.host.node.replica_manager.partitions.values()))
    assert partition.append_config.stores_as_produced
    set_config(side.host, TOPIC, partition.topic, key, value)
    only_refuses = key in {"max.message.bytes", "message.timestamp.after.max.ms"}
    assert partition.append_config.stores_as_produced == only_refuses
