"""`RequestTemplates`: the constant bytes of requests that a connection repeats.

The Produce requests of a producer differ only in correlation id and batch: client id, topic,
partition and settings before the batch are the same bytes. After the handler has served such a
request, its constant bytes become a template; a request that begins with them needs no decoding,
and its response no encoding.

A template never refuses a request: what it does not expect goes to the handler (`serve` returns
False and has changed nothing). It checks its partition for every request, so a change of the
cluster needs no invalidation; stale templates are dropped only to free memory.
"""

from __future__ import annotations

from struct import Struct

from kraftlog.node.containment import contain_repeated
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from kraftlog.authorization.authorizer import Authorizer
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Now

    class Template(Protocol):
        """The constant bytes of one repeated request."""

        #: API key and version as one number.
        head: int
        #: The constant bytes after the correlation id.
        prefix: bytes

        node: ServingNode

        @property
        def partition(self) -> Partition | None:
            """Where a request that raises may have appended."""
            ...

        @property
        def is_stale(self) -> bool:
            """Whether it will serve no request any more."""
            ...

        def serve(
            self,
            buffer: bytearray,
            view: memoryview,
            pos: int,
            end: int,
            correlation_id: int,
            now: Now,
        ) -> bool:
            """Serve a request that begins with the prefix; else change nothing, return False."""
            ...

    #: What makes the template of a served request, which may still find that there is none; None
    #: if the fast path does not support requests like it.
    MakerOf = Callable[["ServedRequest"], Callable[[], Template | None] | None]


#: API key and version as one number, and the correlation id. The prefix of a template follows.
HEAD = Struct(">ii")
#: The maximum number of templates per connection, one for each partition.
MAX_TEMPLATES = 256
#: The longest prefix, enough for usual client ids and topic names; and the maximum number of
#: different prefix lengths, as each costs a lookup per request.
LONGEST_PREFIX = 512
MAX_PREFIX_LENGTHS = 16
#: Stop learning from a connection that never repeats a request.
MAX_LEARNT = 4 * MAX_TEMPLATES


class ServedRequest:
    """A request that its handler has served, and its bytes."""

    __slots__ = ("frame", "node", "pending", "request")

    def __init__(
        self, node: ServingNode, pending: PendingResponse, request: Any, frame: memoryview
    ) -> None:
        self.node, self.pending, self.request, self.frame = node, pending, request, frame


class RequestTemplates:
    """The templates of one connection; its frames go through `serve` first."""

    __slots__ = ("_last", "_learnt", "_prefix_lengths", "_templates")

    def __init__(self) -> None:
        #: By API key and version, and prefix.
        self._templates: dict[tuple[int, bytes], Template] = {}
        #: The different lengths of the prefixes, usually only one.
        self._prefix_lengths: list[int] = []
        self._last: Template | None = None
        #: The number of requests learnt from: one for each template, and those that gave none.
        self._learnt = 0

    def serve(self, buffer: bytearray, view: memoryview, pos: int, end: int, now: Now) -> bool:
        """Serve the frame in `buffer[pos:end]` by its template; returns whether one served it."""
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
            if template.serve(buffer, view, pos, end, correlation_id, now):
                return True
        except Exception as error:
            raise contain_repeated(template.node, template.partition, error) from error
        if template.is_stale:
            self._forget_stale()
        return False

    def _find(self, head: int, view: memoryview, pos: int) -> Template | None:
        for size in self._prefix_lengths:
            template = self._templates.get((head, bytes(view[pos : pos + size])))
            if template is not None:
                return template
        return None

    def _forget_stale(self) -> None:
        """Drop stale templates; their requests may be learnt again."""
        live = {key: template for key, template in self._templates.items() if not template.is_stale}
        self._learnt -= len(self._templates) - len(live)
        self._templates = live
        self._prefix_lengths = list({len(prefix) for _, prefix in live})
        self._last = None

    def may_learn(self, frame: memoryview) -> bool:
        """Whether this request may become a template."""
        if self._learnt >= MAX_LEARNT or len(frame) < HEAD.size:
            return False
        head, _ = HEAD.unpack_from(frame)
        return self._find(head, frame, 8) is None

    def learn(self, template: Template | None) -> None:
        """Count a request learnt from, and add its template if it gave one."""
        self._learnt += 1
        if template is None:
            return
        size = len(template.prefix)
        if not self._has_room(size):
            self._forget_stale()
        if self._has_room(size):
            self._templates[template.head, template.prefix] = template
            if size not in self._prefix_lengths:
                self._prefix_lengths.append(size)

    def _has_room(self, size: int) -> bool:
        if size > LONGEST_PREFIX or len(self._templates) >= MAX_TEMPLATES:
            return False
        return size in self._prefix_lengths or len(self._prefix_lengths) < MAX_PREFIX_LENGTHS


class GuardedTemplates(RequestTemplates):
    """Forgets its templates when ACLs have changed: the authorizer is then asked again."""

    __slots__ = ("_authorizer", "_generation")

    def __init__(self, authorizer: Authorizer) -> None:
        super().__init__()
        self._authorizer = authorizer
        self._generation = authorizer.generation

    def serve(self, buffer: bytearray, view: memoryview, pos: int, end: int, now: Now) -> bool:
        if self._generation != self._authorizer.generation:
            self.__init__(self._authorizer)  # type: ignore[misc]  # begins anew
            return False
        return super().serve(buffer, view, pos, end, now)


def learn(maker_of: MakerOf, served: ServedRequest) -> None:
    """Make a template of a request that the handler has served, if the connection has room."""
    connection = served.pending.connection
    templates: RequestTemplates | None = connection.request_templates
    if templates is None:
        authorizer = served.node.authorizer
        templates = connection.request_templates = (
            RequestTemplates() if authorizer is None else GuardedTemplates(authorizer)
        )
    if templates.may_learn(served.frame):
        make = maker_of(served)
        if make is not None:
            templates.learn(make())
