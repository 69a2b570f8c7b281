"""What a shard wants done, and what it is told of it."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# Effects -----------------------------------------------------------------------------------------


class WriteRecords(Value):
    """Append these as one batch to the shard's partition, and tell what came of it, in order."""

    token: int
    records: Sequence[tuple[bytes, bytes | None]]


class GroupResponse(Value):
    """Answer a request."""

    slot: Any  # what came with the request
    response: Any  # a message of the API's response class, or the part of it that was asked for


# Outcomes ----------------------------------------------------------------------------------------


class Written(Value):
    """The batch is committed: the high watermark has passed it. `offset` is its first."""

    token: int
    offset: int


class WriteFailed(Value):
    """The batch is not in the log and never will be; `error` is the code an append gave."""

    token: int
    error: int


# Who asks ----------------------------------------------------------------------------------------


class RequestContext(Value):
    """What a coordinator wants to know of a request beside its body."""

    version: int
    client_id: str = ""
    client_host: str = ""
