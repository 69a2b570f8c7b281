"""`Slot`: one response that a connection owes.

A connection answers in the order in which it was asked, so it keeps a queue of slots; a request
that must wait fills its slot later, and the requests behind it are served meanwhile.
"""

from __future__ import annotations

from kraftlog.errors import MistakeError
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.codec import encoding
from kraftlog.wire.frames import framed, joined, response_frame

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kraftlog.wire.apis import Api

#: A response with no more items is written at once.
FEW_ITEMS = 100


class Slot:
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
        self.waiter: Any = None

    def answer(self, response: Any) -> None:
        assert self.api is not None
        try:
            pieces = response_frame(self.api, self.version, self.correlation_id, response)
        except Exception as error:  # what answers has decided already, and goes on
            self._cannot_answer(error)
            return
        self.pieces = pieces
        self.connection.ready(self)

    def answer_in_steps(self, response: Any, items: int) -> Iterator[int]:
        """As `answer`, step by step if it has many items: yields what each step has cost."""
        if items <= FEW_ITEMS:
            self.answer(response)
            return
        assert self.api is not None
        pieces: list[Any] = []
        written: list[Any] = []
        try:
            for count in encoding(response, self.version, pieces.append):
                written += joined(pieces)
                pieces.clear()
                yield count
            pieces = framed(self.api, self.version, self.correlation_id, written)
        except Exception as error:
            self._cannot_answer(error)
            return
        self.pieces = pieces
        self.connection.ready(self)

    def _cannot_answer(self, error: Exception) -> None:
        assert self.api is not None
        what = f"answering {self.api.name} version {self.version}"
        self.connection.fail(MistakeError(what, error))

    def abandon(self) -> None:
        """The connection is gone."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter.cancel()

    def answer_nothing(self) -> None:
        """A request that is not answered (Produce with acks 0) leaves no trace in the order."""
        self.pieces = []
        self.connection.ready(self)
