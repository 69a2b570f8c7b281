"""Producer ids, from blocks that the controller allocates to this broker."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.node.broker.controller_channel import ControllerChannel
    from kraftlog.types import Now

NONE_AVAILABLE = -1


class ProducerIds:
    """`next` calls back with an id, at once or after a new block; -1: none available."""

    def __init__(
        self, broker_id: int, epoch: Callable[[], int], controller_channel: ControllerChannel
    ) -> None:
        self._broker_id = broker_id
        self._epoch = epoch
        self._controller_channel = controller_channel
        self._next = 0
        self._end = 0
        self._waiting: list[Callable[[int], None]] = []

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
