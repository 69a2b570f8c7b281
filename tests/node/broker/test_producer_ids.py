"""The rest of a block of producer ids is not used once a log may have been opened."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.metadata.changes import BrokerChanged, PartitionChanged
from kraftlog.metadata.values import BrokerImage
from kraftlog.node.broker.producer_ids import ProducerIds
from kraftlog.types import Now
from kraftlog.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse

NOW = Now(0, 0)


class Controller:
    """Allocates blocks of 1000 ids."""

    def __init__(self) -> None:
        self.blocks = 0

    def send(self, _: int, __: int, ___: Any, on_response: Any, now: Now) -> None:
        response = AllocateProducerIdsResponse(
            error_code=0, producer_id_start=1000 * self.blocks, producer_id_len=1000
        )
        self.blocks += 1
        on_response(response, now)


def broker(epoch: int, *, fenced: bool = False) -> BrokerImage:
    return BrokerImage(4, epoch, b"i" * 16, (), fenced=fenced)


def partition() -> Any:
    return object()


@pytest.mark.parametrize(
    ("change", "next_id"),
    [
        (PartitionChanged(None, partition()), 1000),
        (PartitionChanged(partition(), partition()), 1),
        (PartitionChanged(partition(), None), 1),
        (BrokerChanged(None, broker(3)), 1000),
        (BrokerChanged(broker(3), broker(4)), 1000),
        (BrokerChanged(broker(3, fenced=True), broker(3)), 1),
        (BrokerChanged(broker(3), None), 1),
    ],
    ids=["created", "changed", "removed", "registered", "restarted", "unfenced", "unregistered"],
)
def test_a_new_partition_or_process_of_a_broker_ends_a_block(change: Any, next_id: int) -> None:
    ids: list[int] = []
    producer_ids = ProducerIds(1, lambda: 1, Controller())  # type: ignore[arg-type]  # one method
    producer_ids.next(ids.append, NOW)
    producer_ids.changed(change)
    producer_ids.next(ids.append, NOW)
    assert ids == [0, next_id]
