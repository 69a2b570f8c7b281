"""AllocateProducerIds: hands out blocks of ids, each only once."""

from __future__ import annotations

from kraftlog.controller.decision import Decision
from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse
from kraftlog.wire.messages.metadata_records import ProducerIdsRecord

if TYPE_CHECKING:
    from kraftlog.controller.context import Context
    from kraftlog.controller.state import ControllerState
    from kraftlog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

#: Producer ids in a block, as in Kafka.
BLOCK_SIZE = 1000
#: The largest producer id.
_LAST = 0x7FFF_FFFF_FFFF_FFFF


def decide_allocate_producer_ids(
    state: ControllerState,
    request: AllocateProducerIdsRequest,
    context: Context,  # noqa: ARG001 - every decision is called alike
) -> Decision:
    broker = state.brokers.get(request.broker_id)
    start = state.next_producer_id
    if broker is None or broker.epoch != request.broker_epoch:
        return Decision([], _response(ErrorCode.STALE_BROKER_EPOCH, 0, 0))
    if start > _LAST - BLOCK_SIZE:
        return Decision([], _response(ErrorCode.UNKNOWN_SERVER_ERROR, 0, 0))
    record = ProducerIdsRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, next_producer_id=start + BLOCK_SIZE
    )
    return Decision([record], _response(ErrorCode.NONE, start, BLOCK_SIZE))


def _response(code: int, start: int, length: int) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(
        error_code=code, producer_id_start=start, producer_id_len=length
    )
