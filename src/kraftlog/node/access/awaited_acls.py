"""Requests that wait until a node that has started knows the ACLs.

A denial is final for most clients, so a node must not deny what it can't decide yet.
"""

from __future__ import annotations

from kraftlog.errors import InternalError, ProtocolError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Buffer, Now

#: How often a waiting request looks again.
RETRY_MS = 10


def wait(node: ServingNode, pending: PendingResponse, buffer: Buffer, pos: int) -> None:
    """Serve a request once it can be decided; its connection delivers no other until then."""
    pending.connection.mute()
    node.wait_for_ms(_AwaitedAcls(node, pending, buffer, pos), RETRY_MS)


class _AwaitedAcls:
    """A request that waits, as a delayed operation that renews itself."""

    def __init__(
        self, node: ServingNode, pending: PendingResponse, buffer: Buffer, pos: int
    ) -> None:
        self._node, self.pending = node, pending
        self._buffer, self._pos = buffer, pos

    @property
    def done(self) -> bool:
        return bool(self.pending.connection.closed)

    def expire(self, now: Now) -> None:
        if self.done:
            return
        authorizer = self._node.authorizer
        assert authorizer is not None
        if not authorizer.is_loaded:
            self._node.wait_for_ms(self, RETRY_MS)
            return
        connection = self.pending.connection
        connection.unmute()
        try:
            self._node.frame(self.pending, self._buffer, self._pos, len(self._buffer), now)
        except (InternalError, ProtocolError) as error:
            connection.fail(error)
