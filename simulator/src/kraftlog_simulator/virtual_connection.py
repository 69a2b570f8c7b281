"""The node's end of a virtual connection."""

from __future__ import annotations

from collections import deque

from kraftlog.errors import InternalError, ProtocolError, UnansweredError
from kraftlog.node.pending_response import PendingResponse
from kraftlog.types import ANONYMOUS
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import BROKER

if TYPE_CHECKING:
    from kraftlog.node.fetch.consumer_template import ReadyResponse
    from kraftlog.node.produce.template import PendingResponses
    from kraftlog.node.templates.request_templates import RequestTemplates


class VirtualConnection:
    """Collects responses in the order of the requests."""

    def __init__(self, serves: int = BROKER, name: str = "PLAINTEXT") -> None:
        self.responses: deque[PendingResponse | PendingResponses | ReadyResponse] = deque()
        self.serves = serves  # the roles whose APIs it serves: BROKER, CONTROLLER or both
        self.listener_name = name
        self.host = "127.0.0.1"
        self.principal = ANONYMOUS
        self.closed = False
        self.request_templates: RequestTemplates | None = None
        self.failure: UnansweredError | OSError | None = None
        #: How many requests in progress keep the next one from starting.
        self.mutes = 0
        #: The frames of the requests that wait meanwhile.
        self.held: deque[bytes] = deque()

    def mute(self) -> None:
        self.mutes += 1

    def unmute(self) -> None:
        self.mutes -= 1

    def ready(self, pending: PendingResponse | PendingResponses | ReadyResponse) -> None:
        for piece in pending.pieces or ():
            if not isinstance(piece, bytes):
                piece.pin()

    def fail(self, error: InternalError | ProtocolError | UnansweredError | OSError) -> None:
        if not isinstance(error, (UnansweredError, OSError)):
            raise error
        self.failure = error

    def take(self) -> bytes:
        """The finished response frames, up to the first request in progress."""
        out = b""
        while self.responses and self.responses[0].pieces is not None:
            for piece in self.responses.popleft().pieces or ():
                if isinstance(piece, bytes):
                    out += piece
                else:
                    out += piece.read()
                    piece.release()
        return out
