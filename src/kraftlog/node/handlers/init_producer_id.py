"""InitProducerId 0-5: producer ids for idempotent producers.

Ids come in blocks from the active controller. Transactions are not supported: a transactional id
gets an error that clients do not retry.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.init_producer_id import InitProducerIdResponse

if TYPE_CHECKING:
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now
    from kraftlog.wire.messages.init_producer_id import InitProducerIdRequest


def handle(
    node: ServingNode, pending: PendingResponse, request: InitProducerIdRequest, now: Now
) -> None:
    if request.transactional_id is not None:
        pending.respond(_refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return

    def on_done(producer_id: int) -> None:
        if producer_id < 0:
            pending.respond(_refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            pending.respond(
                InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=0)
            )

    node.producer_ids.next(on_done, now)


def _refused(code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
