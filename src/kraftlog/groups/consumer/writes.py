"""How a decision takes effect: its records change the group at once, the response waits for them.

See `ConsumerGroup` for what happens if their batch fails.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode, UnwritableError
from kraftlog.groups.consumer.refused import RefusedRequestError
from kraftlog.groups.pending_writes import coordinator_error, encode
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.groups.consumer.group import ConsumerGroup
    from kraftlog.groups.consumer.interfaces import Shard
    from kraftlog.groups.pending_writes import OnDone
    from kraftlog.groups.records import GroupRecord
    from kraftlog.types import Now


def when_committed(
    shard: Shard,
    pending: object,
    response: Any,
    error_response: Callable[[int], Any] | None,
) -> OnDone:
    """What to do when a batch has an outcome: send the response, or that for the error."""

    def on_done(code: int, later: Now) -> None:  # noqa: ARG001 - an OnDone callback
        if code and error_response is not None:
            shard.respond(pending, error_response(coordinator_error(code)))
        else:
            shard.respond(pending, response)

    return on_done


def write(
    shard: Shard,
    group: ConsumerGroup,
    records: list[GroupRecord],
    pending: object,
    response: Any,
    error_response: Callable[[int], Any] | None,
    now: Now,
) -> None:
    """Apply records to a group and write them as one batch; respond when it is committed.

    Without records, the response waits for the group's earlier batches: it tells of their state.
    Records that cannot be encoded are refused before they change anything, so that no later
    decision can rest on them.
    """
    group_id = group.group_id
    on_done = when_committed(shard, pending, response, error_response)
    if not records:
        if not shard.writes.after_group(group_id, on_done):
            shard.respond(pending, response)
        return
    try:
        encoded = encode(records)
    except UnwritableError as error:
        raise RefusedRequestError(ErrorCode.INVALID_REQUEST, str(error)) from error
    shard.consumer_groups.setdefault(group_id, group)
    for record in records:
        shard.apply_to_consumer_group(group_id, record)

    def undo(code: int, later: Now) -> None:  # noqa: ARG001 - an OnDone callback
        shard.rebuild_consumer_group(group_id, later)

    shard.writes.submit(records, now, on_done, undo, group_ids=(group_id,), encoded=encoded)
