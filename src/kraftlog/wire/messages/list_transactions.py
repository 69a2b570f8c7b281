"""ListTransactions: the transactions of a coordinator."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int16, int32, int64, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class ListTransactionsRequest(Message, versions=(0, 2), flexible=0):
    state_filters: Sequence[str] = array("string")
    producer_id_filters: Sequence[int] = array("int64")
    duration_filter: int = int64(since=1, default=-1)
    transactional_id_pattern: str | None = string(since=2, nullable=True, default=None)


class TransactionState(Message):
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Message, versions=(0, 2), flexible=0):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    unknown_state_filters: Sequence[str] = array("string")
    transaction_states: Sequence[TransactionState] = array(TransactionState)
