"""What a replica knows about each other replica."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any


class Peer(Value):
    """What this replica knows about one other replica, in any role."""

    #: The number of the request in flight, -1 for none, and the request.
    in_flight: int = -1
    request: Any = None
    #: The number of the newest request without a response, even if this role no longer wants one.
    unanswered: int = -1
    #: Requests without a response, in a row.
    failures: int = 0
    #: Whether its process is known to be dead, until it sends a request or a response.
    is_down: bool = False
    #: Whether its last response was INCONSISTENT_CLUSTER_ID.
    is_foreign: bool = False
    #: The newest epoch in which it was the leader when its process was found dead.
    down_in_epoch: int = -1
