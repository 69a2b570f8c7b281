"""`PendingResponse`: a response in the queue of its connection.

A connection sends responses in the order of its requests, so it keeps a queue of pending responses;
while one waits, the requests after it are served.
"""

from __future__ import annotations

from kraftlog.errors import InternalError
from kraftlog.steps import free_message_in_steps
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.codec import encode_in_steps
from kraftlog.wire.frames import frame_of_encoded, join_small_pieces, response_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from kraftlog.node.request_time import RequestTime
    from kraftlog.types import Cancellable
    from kraftlog.wire.apis import Api
    from kraftlog.wire.schema import Message

#: A response with at most this many items is encoded at once.
FEW_ITEMS = 100
#: Cost of encoding an item, in microseconds; number of items whose pieces are joined at once.
ITEM_COST, JOINED_AT_ONCE = 2, 1000

_arrays: dict[type[Message], Sequence[tuple[str, bool]]] = {}


def items_of(message: Any, limit: int = FEW_ITEMS) -> int:
    """The number of structs in a message, counted up to `limit` + 1."""
    count = 0
    for name, is_nested in _arrays_of(type(message)):
        structs = getattr(message, name) or ()
        count += len(structs)
        if count > limit:
            return limit + 1
        for item in structs if is_nested else ():
            count += items_of(item, limit)
            if count > limit:
                return limit + 1
    return count


def _arrays_of(cls: type[Message]) -> Sequence[tuple[str, bool]]:
    """The fields that are arrays of structs, and whether those structs have arrays of structs."""
    fields = _arrays.get(cls)
    if fields is None:
        fields = _arrays[cls] = [
            (field.name, bool(_arrays_of(field.struct)))
            for field in cls._schema
            if field.is_array and field.struct is not None
        ]
    return fields


class PendingResponse:
    """Pending until `pieces` has the bytes and file slices of the response."""

    __slots__ = (
        "api",
        "client_id",
        "complete",
        "connection",
        "correlation_id",
        "pieces",
        "received_ms",
        "response",
        "size",
        "time",
        "version",
        "waiter",
        "waits",
    )

    #: The number of responses that this object stands for.
    count = 1
    #: Whether parts of a response may be encoded already.
    takes_encoded = True
    #: Whether another broker has forwarded the request of its client, which it throttles itself.
    is_forwarded = False

    def __init__(self, connection: Any) -> None:
        #: The host's connection, opaque to the node.
        self.connection = connection
        self.api: Api | None = None
        #: When the turn that read the request began.
        self.received_ms = 0
        self.version = 0
        self.correlation_id = 0
        self.client_id: str | None = None
        #: Size of the request as the connection counts it.
        self.size = 0
        self.pieces: list[Any] | None = None
        #: The number of partitions that the response still waits for, and the response.
        self.waits = 0
        self.response: Any = None
        #: Called with the response before it is sent: it adds what the client was denied.
        self.complete: Callable[[Any], None] | None = None
        #: The time that the loop spends on the request, if a quota limits it.
        self.time: RequestTime | None = None
        #: Delayed work, cancelled when the connection closes.
        self.waiter: Cancellable | None = None

    def client(self) -> tuple[str, str]:
        """The principal of the client, and its host."""
        return self.connection.principal, self.connection.host

    @property
    def is_by_token(self) -> bool:
        """Whether the client has logged in by a delegation token."""
        authenticator = getattr(self.connection, "authenticator", None)
        return authenticator is not None and authenticator.is_by_token

    def respond(self, response: Any) -> None:
        assert self.api is not None
        response = self._completed(response)
        try:
            pieces = response_frame(self.api, self.version, self.correlation_id, response)
        except Exception as error:  # the request is carried out; only its response fails
            self._fail_connection(error)
            return
        self._send(pieces)

    def respond_in_steps(self, response: Any, items: int) -> Iterator[int]:
        """`respond` in steps if the response has many items; yields their costs.

        Empties the lists of the response afterwards, to free memory in steps.
        """
        if items <= FEW_ITEMS:
            self.respond(response)
            return
        assert self.api is not None
        response = self._completed(response)
        pieces: list[Any] = []
        written: list[Any] = []
        unjoined = 0
        try:
            for count in encode_in_steps(response, self.version, pieces.append):
                unjoined += count
                if unjoined >= JOINED_AT_ONCE:
                    written += join_small_pieces(pieces)
                    pieces.clear()
                    unjoined = 0
                yield ITEM_COST * count
            pieces = frame_of_encoded(
                self.api, self.version, self.correlation_id, written + join_small_pieces(pieces)
            )
        except Exception as error:
            self._fail_connection(error)
            return
        self._send(pieces)
        yield from free_message_in_steps(response)

    def _completed(self, response: Any) -> Any:
        if self.complete is not None:
            self.complete(response)
        return response if self.time is None else self.time.throttled(response)

    def _send(self, pieces: list[Any]) -> None:
        self.pieces = pieces
        self.connection.ready(self)

    def _fail_connection(self, error: Exception) -> None:
        assert self.api is not None
        what = f"responding to {self.api.name} version {self.version}"
        self.connection.fail(InternalError(what, error))

    def abandon(self) -> None:
        """The connection is closed: cancel delayed work."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter.cancel()

    def respond_nothing(self) -> None:
        """Complete a request without a response (Produce with acks=0).

        As in Kafka, its time is exempt: the client could not be told that it is throttled.
        """
        self.time = None
        self._send([])
