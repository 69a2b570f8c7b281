"""`RequestTemplates`: the requests that a connection has been seen to repeat.

A producer says the same in every request but for its number and its batch: client, topic,
partition and settings stand in front of the batch, byte for byte. Once a request has been served
in the ordinary way, its constant bytes are remembered as a template; one that begins with them
needs no decoding, and its answer no encoding.

A template decides nothing: whatever it does not expect (`take` gives False, and has changed
nothing) goes the ordinary way. It asks its partition each time, so nothing has to be dropped when
the cluster changes, but for the memory.
"""

from __future__ import annotations

from struct import Struct

from kraftlog.node.containment import contain_repeated
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey

if TYPE_CHECKING:
    from typing import Any, Protocol

    from kraftlog.node.node import Node
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Buffer, Now

    class Template(Protocol):
        """One request that repeats."""

        #: API key and version; what follows upon the correlation id, up to what differs.
        head: int
        prefix: bytes

        node: Node
        partition: Partition

        @property
        def is_stale(self) -> bool:
            """Whether it will not serve again: what it goes by is not so any more."""
            ...

        def take(
            self,
            buffer: bytearray,
            view: memoryview,
            pos: int,
            end: int,
            correlation_id: int,
            now: Now,
        ) -> bool:
            """Serve the request, which begins as it should; else change nothing and give False."""
            ...


#: API key and version as one number, correlation id. What follows is the prefix of a template.
HEAD = Struct(">ii")
#: So many partitions one connection may send to and have remembered.
MOST_TEMPLATES = 256
#: So many bytes of a request are kept, and looked up for each that follows, in so many lengths:
#: room for the names that clients and topics have, and for those of a few topics.
LONGEST_PREFIX = 512
MOST_SIZES = 16
#: A connection that never says the same twice is not learnt from for ever.
MOST_LESSONS = 4 * MOST_TEMPLATES


class RequestTemplates:
    """Belongs to one connection, whose frames go through `take` first."""

    __slots__ = ("_known", "_last", "_lessons", "_sizes")

    def __init__(self) -> None:
        #: By API and version, and by the bytes behind the correlation id.
        self._known: dict[tuple[int, bytes], Template] = {}
        #: How long those bytes are; as a rule, all are as long.
        self._sizes: list[int] = []
        self._last: Template | None = None
        #: From how many requests something was to be learnt: those that are known, and in vain.
        self._lessons = 0

    def take(self, buffer: bytearray, view: memoryview, pos: int, end: int, now: Now) -> bool:
        """Whether the frame in `buffer[pos:end]` was one that repeats, and has been served."""
        if end - pos < HEAD.size:
            return False
        head, correlation_id = HEAD.unpack_from(buffer, pos)
        template = self._last
        if (
            template is None
            or template.head != head
            or not buffer.startswith(template.prefix, pos + 8)
        ):
            template = self._find(head, view, pos + 8)
            if template is None:
                return False
            self._last = template
        try:
            if template.take(buffer, view, pos, end, correlation_id, now):
                return True
        except Exception as error:
            raise contain_repeated(template.node, template.partition, error) from error
        if template.is_stale:
            self._forget_stale()
        return False

    def _find(self, head: int, view: memoryview, pos: int) -> Template | None:
        for size in self._sizes:
            found = self._known.get((head, bytes(view[pos : pos + size])))
            if found is not None:
                return found
        return None

    def _forget_stale(self) -> None:
        """Those that will not serve again; their like may be learnt anew."""
        known = {key: template for key, template in self._known.items() if not template.is_stale}
        self._lessons -= len(self._known) - len(known)
        self._known = known
        self._sizes = list({len(prefix) for _, prefix in known})
        self._last = None

    def is_curious(self, buffer: Buffer, pos: int, end: int) -> bool:
        """Whether something may be learnt from this request."""
        if self._lessons >= MOST_LESSONS or end - pos < HEAD.size:
            return False
        head, _ = HEAD.unpack_from(buffer, pos)
        return self._find(head, memoryview(buffer), pos + 8) is None

    def learn(self, template: Template | None) -> None:
        """A lesson, though nothing may have come of it."""
        self._lessons += 1
        if template is None:
            return
        size = len(template.prefix)
        if not self._has_room(size):
            self._forget_stale()
        if self._has_room(size):
            self._known[template.head, template.prefix] = template
            if size not in self._sizes:
                self._sizes.append(size)

    def _has_room(self, size: int) -> bool:
        if size > LONGEST_PREFIX or len(self._known) >= MOST_TEMPLATES:
            return False
        return size in self._sizes or len(self._sizes) < MOST_SIZES


def learn(
    node: Node, slot: PendingResponse, request: Any, buffer: Buffer, pos: int, end: int
) -> None:
    """From a request that has been served in the ordinary way: its like may come again."""
    connection = slot.connection
    repeats: RequestTemplates | None = connection.repeats
    if repeats is None:
        repeats = connection.repeats = RequestTemplates()
    if not repeats.is_curious(buffer, pos, end):
        return
    assert slot.api is not None, "it has been served"
    kind = _kind(slot.api.key)
    subject = kind.partition_of_request(node, slot, request)
    if subject is not None:
        repeats.learn(kind.template_of(node, slot, request, subject, buffer, pos, end))


def _kind(api_key: int) -> Any:
    """Who knows what is constant about requests of this API."""
    if api_key == ApiKey.PRODUCE:
        from kraftlog.node.fast_path import produce

        return produce
    from kraftlog.node.fast_path import fetch

    return fetch
