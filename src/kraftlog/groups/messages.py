"""Effects of a shard, their outcomes, and the context of a request."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

# Effects -----------------------------------------------------------------------------------------


class WriteRecords(Value):
    """Append records as one batch to the shard's partition; outcomes are reported in order."""

    token: int
    records: Sequence[tuple[bytes, bytes | None]]  # (key, value)


class GroupResponse(Value):
    """The response to a request."""

    pending: Any  # as passed with the request
    response: Any  # a message of the API's response class, or a part of it


# Outcomes ----------------------------------------------------------------------------------------


class Written(Value):
    """The batch is committed; `offset` is its first offset."""

    token: int
    offset: int


class WriteFailed(Value):
    """The batch will never be in the log; `error` is the code of the append."""

    token: int
    error: int


# Requests ----------------------------------------------------------------------------------------


class RequestContext(Value):
    """What handlers need to know of a request besides its body."""

    version: int
    client_id: str = ""
    client_host: str = ""
    #: Whether the client may describe a topic; None: every one.
    may_describe: Callable[[str], bool] | None = None
