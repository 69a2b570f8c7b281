"""`PendingResponse`: one response that a connection owes.

A connection answers in the order in which it was asked, so it keeps a queue of slots; a request
that must wait fills its slot later, and the requests behind it are served meanwhile.
"""

from __future__ import annotations

from kraftlog.errors import InternalError
from kraftlog.steps import letting_go_of
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.codec import encoding
from kraftlog.wire.frames import framed, joined, response_frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from kraftlog.types import Cancellable
    from kraftlog.wire.apis import Api
    from kraftlog.wire.schema import Message

#: A response with no more items is written at once.
FEW_ITEMS = 100
#: What it costs to write one, in microseconds; so many become a piece that is not joined again.
AN_ITEM_COSTS, JOINED_AT_ONCE = 2, 1000

_arrays: dict[type[Message], Sequence[tuple[str, bool]]] = {}


def items_of(message: Any, most: int = FEW_ITEMS) -> int:
    """How many structs a message holds; counted no further than to one more than `most`."""
    count = 0
    for name, has_more in _arrays_of(type(message)):
        found = getattr(message, name) or ()
        count += len(found)
        if count > most:
            return most + 1
        for item in found if has_more else ():
            count += items_of(item, most)
            if count > most:
                return most + 1
    return count


def _arrays_of(cls: type[Message]) -> Sequence[tuple[str, bool]]:
    """The fields that are arrays of structs, and whether these have such fields, too."""
    found = _arrays.get(cls)
    if found is None:
        found = _arrays[cls] = [
            (field.name, bool(_arrays_of(field.struct)))
            for field in cls._schema
            if field.is_array and field.struct is not None
        ]
    return found


class PendingResponse:
    """Empty until `pieces` is set: the bytes and file slices of the answer, or none at all."""

    __slots__ = (
        "api",
        "asked_ms",
        "client_id",
        "connection",
        "correlation_id",
        "pieces",
        "response",
        "size",
        "version",
        "waiter",
        "waits",
    )

    #: How many answers it stands for.
    count = 1

    def __init__(self, connection: Any) -> None:
        #: The host's connection; opaque to everybody else.
        self.connection = connection
        self.api: Api | None = None
        #: When the turn began in which the request came.
        self.asked_ms = 0
        self.version = 0
        self.correlation_id = 0
        self.client_id: str | None = None
        #: The bytes of the request, as far as the connection counts them.
        self.size = 0
        self.pieces: list[Any] | None = None
        #: How many partitions the answer still waits for, and the answer.
        self.waits = 0
        self.response: Any = None
        #: What goes on for this slot and has no sense once nobody is there to be answered.
        self.waiter: Cancellable | None = None

    def respond(self, response: Any) -> None:
        assert self.api is not None
        try:
            pieces = response_frame(self.api, self.version, self.correlation_id, response)
        except Exception as error:  # what answers has decided already, and goes on
            self._cannot_answer(error)
            return
        self.pieces = pieces
        self.connection.ready(self)

    def respond_in_steps(self, response: Any, items: int) -> Iterator[int]:
        """As `answer`, step by step if it has many items: yields what each step has cost.

        The lists of the response are the answer's own: they are emptied afterwards.
        """
        if items <= FEW_ITEMS:
            self.respond(response)
            return
        assert self.api is not None
        pieces: list[Any] = []
        written: list[Any] = []
        unjoined = 0
        try:
            for count in encoding(response, self.version, pieces.append):
                unjoined += count
                if unjoined >= JOINED_AT_ONCE:
                    written += joined(pieces)
                    pieces.clear()
                    unjoined = 0
                yield AN_ITEM_COSTS * count
            pieces = framed(self.api, self.version, self.correlation_id, written + joined(pieces))
        except Exception as error:
            self._cannot_answer(error)
            return
        self.pieces = pieces
        self.connection.ready(self)
        yield from letting_go_of(response)

    def _cannot_answer(self, error: Exception) -> None:
        assert self.api is not None
        what = f"answering {self.api.name} version {self.version}"
        self.connection.fail(InternalError(what, error))

    def abandon(self) -> None:
        """The connection is gone."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter.cancel()

    def respond_nothing(self) -> None:
        """A request that is not answered (Produce with acks 0) leaves no trace in the order."""
        self.pieces = []
        self.connection.ready(self)
