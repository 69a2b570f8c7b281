"""A small HTTP/1.1 server on the event loop: GET and HEAD of pages built in slices.

It serves monitoring, not the public: it accepts few connections, short requests without a body, one
request at a time per connection, and disconnects slow clients.
"""

from __future__ import annotations

import contextlib
import select
import socket
from itertools import islice

from kraftlog.server.listening import bind
from kraftlog.server.operator_log import log_line
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog.types import Now

EPOLLIN, EPOLLOUT = select.EPOLLIN, select.EPOLLOUT
MAX_CONNECTIONS = 16
#: Largest request line with header fields, in bytes.
MAX_HEAD = 8 << 10
#: Time limit from the end of one response to the next request, and again for its response.
DEFAULT_TIMEOUT_MS = 10_000
#: Pieces of a page built in one turn, about a millisecond of work.
PIECES_PER_TURN = 500
SEND_SIZE = 256 << 10

REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_ALLOW = "Allow: GET, HEAD\r\n"


class HttpRequest(Value):
    method: str
    path: str
    keeps_alive: bool


class HttpResponse(Value):
    """A page; its `pieces` are built over several turns and may be from different moments."""

    status: int
    pieces: Iterator[str]
    content_type: str = "text/plain; charset=utf-8"


def parse(head: bytes) -> HttpRequest | int:
    """Parse a request head without the empty line; return the request or an error status."""
    request_line, *lines = head.decode("latin-1").split("\r\n")
    words = request_line.split(" ")
    if len(words) != 3 or not words[1].startswith("/") or not words[2].startswith("HTTP/"):
        return 400
    method, target, version = words
    if version not in {"HTTP/1.0", "HTTP/1.1"}:
        return 505
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            return 400
        fields[name.lower()] = value.strip()
    is_http_1_1 = version == "HTTP/1.1"
    if (is_http_1_1 and "host" not in fields) or _has_body(fields):
        return 400
    if method not in {"GET", "HEAD"}:
        return 405
    connection_field = fields.get("connection", "").lower()
    return HttpRequest(
        method, target.partition("?")[0], is_http_1_1 and connection_field != "close"
    )


def _has_body(fields: dict[str, str]) -> bool:
    return "transfer-encoding" in fields or fields.get("content-length", "0") != "0"


class _Connection:
    """A connection that reads a request, sends the response, then reads the next request."""

    def __init__(self, sock: socket.socket, until_ms: int) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.received = b""
        self.request: HttpRequest | None = None
        #: The page being built, and the unsent rest of the response.
        self.page: HttpResponse | None = None
        self.pieces: list[str] = []
        self.out = memoryview(b"")
        self.closes = False
        self.until_ms = until_ms

    @property
    def waits_for_request(self) -> bool:
        return self.page is None and not self.out


class HttpServer:
    """The server; `page(path, now)` returns a page, or None for an unknown path."""

    def __init__(
        self,
        epoll: select.epoll,
        host: str,
        port: int,
        page: Callable[[str, Now], HttpResponse | None],
    ) -> None:
        self._epoll = epoll
        self._page = page
        self._listener = bind(host, port)
        self._listener.listen(MAX_CONNECTIONS)
        self.port: int = self._listener.getsockname()[1]
        self._connections: dict[int, _Connection] = {}
        epoll.register(self._listener.fileno(), EPOLLIN)

    @property
    def has_work(self) -> bool:
        """Whether a page is being built."""
        return any(connection.page is not None for connection in self._connections.values())

    def deadline(self) -> int | None:
        return min([connection.until_ms for connection in self._connections.values()], default=None)

    def close(self) -> None:
        for connection in list(self._connections.values()):
            self._drop(connection)
        self._listener.close()

    def event(self, fd: int, event: int, now: Now) -> None:
        if fd == self._listener.fileno():
            self._accept(now)
            return
        connection = self._connections.get(fd)
        if connection is None:
            return
        try:
            if event & EPOLLOUT:
                self._send(connection, now)
            elif connection.waits_for_request:
                self._receive(connection, now)
            else:
                self._drop(connection)  # the connection is broken
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)

    def continue_pages(self, now: Now) -> None:
        """Once per turn: continue pages and close connections that exceed the time limit."""
        for connection in list(self._connections.values()):
            if connection.until_ms <= now.monotonic_ms:
                self._drop(connection)
            elif connection.page is not None:
                try:
                    self._build(connection, now)
                except OSError:
                    self._drop(connection)

    # Connections ---------------------------------------------------------------------------------

    def _accept(self, now: Now) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return  # already closed, or no descriptor is left
        if len(self._connections) >= MAX_CONNECTIONS:
            sock.close()
            return
        sock.setblocking(False)
        connection = _Connection(sock, now.monotonic_ms + DEFAULT_TIMEOUT_MS)
        self._connections[connection.fd] = connection
        self._epoll.register(connection.fd, EPOLLIN)

    def _drop(self, connection: _Connection) -> None:
        del self._connections[connection.fd]
        with contextlib.suppress(OSError):
            self._epoll.unregister(connection.fd)
        connection.sock.close()

    # Requests ------------------------------------------------------------------------------------

    def _receive(self, connection: _Connection, now: Now) -> None:
        data = connection.sock.recv(MAX_HEAD)
        if not data:
            self._drop(connection)
            return
        connection.received += data
        self._parse_next(connection, now)

    def _parse_next(self, connection: _Connection, now: Now) -> None:
        """Read the next request, if it is complete."""
        head, end, rest = connection.received.lstrip(b"\r\n").partition(b"\r\n\r\n")
        if len(head) > MAX_HEAD:
            self._begin(connection, 431, now)
        elif end:
            connection.received = rest
            self._begin(connection, parse(head), now)

    def _begin(self, connection: _Connection, request: HttpRequest | int, now: Now) -> None:
        page: HttpResponse | None
        if isinstance(request, int):
            connection.request = None
            connection.closes = True
            page = _error_page(request)
        else:
            connection.request = request
            connection.closes = not request.keeps_alive
            page = self._page(request.path, now) or _error_page(404)
        connection.page = page
        connection.pieces = []
        connection.until_ms = now.monotonic_ms + DEFAULT_TIMEOUT_MS
        self._epoll.modify(connection.fd, 0)

    # Pages ---------------------------------------------------------------------------------------

    def _build(self, connection: _Connection, now: Now) -> None:
        """Build the next slice of the page; send the page after the last one."""
        page, request = connection.page, connection.request
        assert page is not None, "the page is being built"
        try:
            slice_ = list(islice(page.pieces, PIECES_PER_TURN))
        except Exception as error:  # an error in a page must not stop the node
            log_line(f"cannot build an HTTP page: {type(error).__name__}: {error}")
            connection.closes = True
            connection.page, connection.pieces = _error_page(500), []
            return
        connection.pieces += slice_
        if len(slice_) == PIECES_PER_TURN:
            return
        body = "".join(connection.pieces).encode()
        head = (
            f"HTTP/1.1 {page.status} {REASONS[page.status]}\r\n"
            f"Content-Type: {page.content_type}\r\n"
            f"Content-Length: {len(body)}\r\n"
            f"{_ALLOW if page.status == 405 else ''}"
            f"Connection: {'close' if connection.closes else 'keep-alive'}\r\n\r\n"
        ).encode()
        is_head = request is not None and request.method == "HEAD"
        connection.page, connection.pieces = None, []
        connection.out = memoryview(head if is_head else head + body)
        with contextlib.suppress(BlockingIOError):
            self._send(connection, now)

    def _send(self, connection: _Connection, now: Now) -> None:
        """Send what the socket accepts; then read the next request or close."""
        self._epoll.modify(connection.fd, EPOLLOUT)
        while connection.out:
            sent = connection.sock.send(connection.out[:SEND_SIZE])
            connection.out = connection.out[sent:]
        if connection.closes:
            self._drop(connection)
            return
        connection.until_ms = now.monotonic_ms + DEFAULT_TIMEOUT_MS
        self._epoll.modify(connection.fd, EPOLLIN)
        self._parse_next(connection, now)


def _error_page(status: int) -> HttpResponse:
    return HttpResponse(status, iter([f"{status} {REASONS[status]}\n"]))
