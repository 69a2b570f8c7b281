"""The HTTP server without a node, in virtual time: requests, slices and slow clients."""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.server.http import (
    DEFAULT_TIMEOUT_MS,
    MAX_CONNECTIONS,
    MAX_HEAD,
    PIECES_PER_TURN,
    HttpRequest,
    HttpResponse,
    HttpServer,
    parse,
)
from kraftlog.types import Now
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGE = 4 << 20


class HostedHttpServer:
    """A server whose turns are run by the test."""

    def __init__(self) -> None:
        self.epoll = select.epoll()
        self.http = HttpServer(self.epoll, "127.0.0.1", 0, self.page)
        self.ms = 0

    def page(self, path: str, _: Now) -> HttpResponse | None:
        if path == "/large":
            return HttpResponse(200, iter(["x" * LARGE]))
        if path == "/sliced":
            return HttpResponse(200, iter(["line\n"] * (2 * PIECES_PER_TURN)))
        if path == "/broken":
            return HttpResponse(200, (str(1 // 0) for _ in "x"))
        return HttpResponse(200, iter([f"this is {path}\n"])) if path != "/none" else None

    def turn(self, *, wait: bool = True) -> None:
        now = Now(self.ms, self.ms)
        for fd, event in self.epoll.poll(0 if self.http.has_work or not wait else LIMIT_S):
            self.http.event(fd, event, now)
        self.http.continue_pages(now)

    def connect(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.http.port), timeout=LIMIT_S)
        self.turn()
        return client

    def ask(self, client: socket.socket, data: bytes) -> bytes:
        """Send a request; return the first bytes of the response."""
        client.sendall(data)
        while not select.select([client], [], [], 0)[0]:
            self.turn()
        return client.recv(1 << 16)

    def close(self) -> None:
        self.http.close()
        self.epoll.close()


@pytest.fixture
def host() -> Iterator[HostedHttpServer]:
    host = HostedHttpServer()
    yield host
    host.close()


def get(path: str, *fields: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: here", *fields, "", ""]).encode()


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"GET / HTTP/1.1\r\nHost: a", HttpRequest("GET", "/", True)),
        (b"HEAD /a?b HTTP/1.1\r\nhost:a\r\nConnection: Close", HttpRequest("HEAD", "/a", False)),
        (b"GET / HTTP/1.0", HttpRequest("GET", "/", False)),
        (b"GET / HTTP/1.1", 400),
        (b"GET / HTTP/2.0\r\nHost: a", 505),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked", 400),
        (b"GET / HTTP/1.1\r\nHost : a", 400),
        (b"GET  / HTTP/1.1\r\nHost: a", 400),
        (b"GET http://a/ HTTP/1.1\r\nHost: a", 400),
        (b"DELETE / HTTP/1.1\r\nHost: a", 405),
        (b"", 400),
    ],
)
def test_request_heads_are_parsed(head: bytes, expected: HttpRequest | int) -> None:
    assert parse(head) == expected


@given(st.binary(max_size=200))
def test_any_head_is_parsed_or_refused(head: bytes) -> None:
    parsed = parse(head)
    assert isinstance(parsed, HttpRequest) or parsed in {400, 405, 505}


def test_a_connection_may_repeat_and_pipeline_requests(host: HostedHttpServer) -> None:
    with host.connect() as client:
        assert host.ask(client, get("/a")).endswith(b"\r\n\r\nthis is /a\n")
        received = host.ask(client, get("/b") + get("/c") + get("/none", "Connection: close"))
        while not received.endswith(b"404 Not Found\n"):
            received += host.ask(client, b"")
        counts = {b"is /b": 1, b"is /c": 1, b"keep-alive": 2, b"close": 1}
        assert {word: received.count(word) for word in counts} == counts
        assert client.recv(1) == b""


def test_a_request_may_arrive_in_pieces(host: HostedHttpServer) -> None:
    with host.connect() as client:
        request = get("/a")
        client.sendall(request[:9])
        host.turn()
        assert not host.http.has_work
        assert host.ask(client, request[9:]).endswith(b"this is /a\n")


def test_a_long_page_is_built_over_several_turns(host: HostedHttpServer) -> None:
    with host.connect() as client:
        client.sendall(get("/sliced"))
        turns = 0
        host.turn()
        while host.http.has_work:
            host.turn()
            turns += 1
        assert turns == 2
        assert client.recv(1 << 16).count(b"line\n") == 2 * PIECES_PER_TURN


def test_an_error_in_a_page_fails_only_that_page(
    host: HostedHttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with host.connect() as client:
        assert host.ask(client, get("/broken")).startswith(b"HTTP/1.1 500 ")
        assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_head_without_an_end_is_refused(host: HostedHttpServer) -> None:
    with host.connect() as client:
        head = b"GET / HTTP/1.1\r\nX: " + b"a" * MAX_HEAD
        assert host.ask(client, head).startswith(b"HTTP/1.1 431 ")


def test_slow_clients_are_disconnected(host: HostedHttpServer) -> None:
    """Clients that are slow to send a request, or to receive the response."""
    with host.connect() as slow_sender, host.connect() as slow_receiver:
        slow_sender.sendall(b"GET / HT")
        host.turn()
        slow_receiver.sendall(get("/large"))
        host.turn()
        host.ms += DEFAULT_TIMEOUT_MS - 1
        host.turn(wait=False)
        host.turn(wait=False)
        assert host.http.deadline() == DEFAULT_TIMEOUT_MS
        host.ms += 1
        host.turn(wait=False)
        assert host.http.deadline() is None
        assert slow_sender.recv(1) == b""
        received = 0
        with pytest.raises(ConnectionResetError):  # noqa: PT012 - the reset, or the end of the stream, comes after bytes in flight
            while data := slow_receiver.recv(1 << 20):
                received += len(data)
            raise ConnectionResetError
        assert received < LARGE


def test_a_large_page_arrives_complete(host: HostedHttpServer) -> None:
    with host.connect() as client:
        client.sendall(get("/large", "Connection: close"))
        received = 0
        host.turn()
        client.setblocking(False)
        while True:
            try:
                data = client.recv(1 << 20)
            except BlockingIOError:
                host.turn()
                continue
            if not data:
                break
            received += len(data)
        assert received > LARGE


def test_the_number_of_connections_is_limited(host: HostedHttpServer) -> None:
    clients = [host.connect() for _ in range(MAX_CONNECTIONS)]
    with host.connect() as one_too_many:
        assert one_too_many.recv(1) == b""
    assert host.ask(clients[0], get("/a")).endswith(b"this is /a\n")
    for client in clients:
        client.close()
        host.turn()
    assert host.http.deadline() is None
