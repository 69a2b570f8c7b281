"""Producer ids, from blocks that the controller allocates to this broker.

A leader must know which producers have begun after its log: only those are never forgotten, and
have to start with sequence 0 (`ProducerState.check`). It knows by the id, which is not below the
next one that the metadata had when the log was opened. So the rest of a block is not used once a
log may have been opened: a partition was created, or a broker was started.
"""

from __future__ import annotations

from kraftlog.metadata.changes import BrokerChanged, PartitionChanged
from kraftlog.metadata.loader import MetadataPublisher
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.metadata.changes import Change
    from kraftlog.metadata.image import Image
    from kraftlog.node.broker.controller_channel import ControllerChannel
    from kraftlog.types import Now

NONE_AVAILABLE = -1


class ProducerIds(MetadataPublisher):
    """`next` calls back with an id, at once or after a new block; -1: none available."""

    name = "producer ids"

    def __init__(
        self, broker_id: int, epoch: Callable[[], int], controller_channel: ControllerChannel
    ) -> None:
        self._broker_id = broker_id
        self._epoch = epoch
        self._controller_channel = controller_channel
        self._next = 0
        self._end = 0
        self._waiting: list[Callable[[int], None]] = []

    def changed(self, change: Change) -> None:
        if opens_logs(change):
            self._end = self._next

    def reloaded(self, before: Image) -> None:  # noqa: ARG002 - interface of publishers
        self._end = self._next

    def next(self, on_done: Callable[[int], None], now: Now) -> None:
        if self._next < self._end:
            self._next += 1
            on_done(self._next - 1)
            return
        self._waiting.append(on_done)
        if len(self._waiting) == 1:
            request = AllocateProducerIdsRequest(
                broker_id=self._broker_id, broker_epoch=self._epoch()
            )
            self._controller_channel.send(
                ApiKey.ALLOCATE_PRODUCER_IDS, 0, request, self._on_response, now
            )

    def _on_response(self, response: Any, now: Now) -> None:
        waiting, self._waiting = self._waiting, []
        if response is None or response.error_code:
            for on_done in waiting:
                on_done(NONE_AVAILABLE)
            return
        self._next = response.producer_id_start
        self._end = self._next + response.producer_id_len
        for on_done in waiting:
            self.next(on_done, now)


def opens_logs(change: Change) -> bool:
    """Whether a broker opens a log, perhaps: a partition is new, or a process of a broker is."""
    if isinstance(change, PartitionChanged):
        return change.before is None
    if isinstance(change, BrokerChanged):
        before, after = change.before, change.after
        return after is not None and (before is None or before.epoch != after.epoch)
    return False
