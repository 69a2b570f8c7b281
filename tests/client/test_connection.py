"""Connections to old brokers, to peers that are not brokers, and to peers that disconnect."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest

from kraftlog.client.connection import Connection
from kraftlog.client.deadline import Deadline
from kraftlog.client.model import parse_servers
from kraftlog.client.versions import api_named, chosen_version
from kraftlog.errors import ErrorCode, RefusedError, UnreachableError, UnsupportedApiError
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import encode
from kraftlog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kraftlog.wire.messages.list_groups import ListGroupsRequest
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator


class Peer:
    """Accepts one connection and sends one prepared response per request."""

    def __init__(self, responses: list[bytes]) -> None:
        self._responses = responses
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        #: The API version of each received request.
        self.versions: list[int] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, self._listener:
            for response in self._responses or [b""]:
                request = connection.recv(4096)
                self.versions.append(int.from_bytes(request[6:8], "big"))
                connection.sendall(response)

    def join(self) -> None:
        self._thread.join(LIMIT_S)


@pytest.fixture
def peers() -> Iterator[list[Peer]]:
    started: list[Peer] = []
    yield started
    for peer in started:
        peer.join()


def frame(correlation_id: int, body: bytes) -> bytes:
    content = correlation_id.to_bytes(4, "big") + body
    return len(content).to_bytes(4, "big") + content


def api_versions_response(code: int, last: int, version: int) -> bytes:
    keys = [ApiVersion(api_key=18, min_version=0, max_version=last)]
    return encode(ApiVersionsResponse(error_code=code, api_keys=keys), version)


def connect(peer: Peer) -> Connection:
    return Connection("127.0.0.1", peer.port, "test", Deadline(LIMIT_S))


def connection_error(peers: list[Peer], *responses: bytes) -> str:
    peers.append(Peer(list(responses)))
    with pytest.raises((UnreachableError, RefusedError)) as error:
        connect(peers[-1])
    return str(error.value)


def test_api_versions_falls_back_for_old_brokers(peers: list[Peer]) -> None:
    """The broker sends UNSUPPORTED_VERSION and its versions in the format of version 0."""
    code = ErrorCode.UNSUPPORTED_VERSION
    peers.append(
        Peer(
            [frame(1, api_versions_response(code, 2, 0)), frame(2, api_versions_response(0, 2, 2))]
        )
    )
    connection = connect(peers[0])
    assert connection.served == {18: (0, 2)}
    assert peers[0].versions == [5, 2]
    with pytest.raises(UnsupportedApiError, match="does not support ListGroups"):
        connection.send(ListGroupsRequest(), Deadline(LIMIT_S))
    connection.close()


def test_peers_that_are_not_brokers_are_reported(peers: list[Peer]) -> None:
    no_such_version = api_versions_response(ErrorCode.UNSUPPORTED_VERSION, 0, 0)
    assert "a listener with TLS" in connection_error(peers, b"HTTP/1.1 400 Bad Request\r\n")
    assert "the broker closed the connection" in connection_error(peers)
    assert "the broker closed the connection" in connection_error(peers, frame(1, b"")[:6])
    assert "sent correlation id 7; expected 1" in connection_error(peers, frame(7, b"\0" * 9))
    assert "invalid ApiVersions response" in connection_error(peers, frame(1, b"\0\0\7"))
    assert "NETWORK_EXCEPTION" in connection_error(peers, frame(1, api_versions_response(13, 5, 5)))
    assert "UNSUPPORTED_VERSION" in connection_error(
        peers, frame(1, no_such_version), frame(2, no_such_version)
    )


def test_a_silent_broker_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UnreachableError, match="request timed out"):
            Connection("127.0.0.1", port, "test", Deadline(0.05))


def test_chosen_version_is_the_newest_common_one() -> None:
    api = APIS[ApiKey.LIST_OFFSETS]
    assert chosen_version(api, {api.key: (0, 5)}, "b") == 5
    assert chosen_version(api, {api.key: (0, 99)}, "b") == api.last
    assert chosen_version(APIS[ApiKey.PRODUCE], {0: (0, 13)}, "b") == 12
    with pytest.raises(UnsupportedApiError, match="versions 14 to 15, this client 3"):
        chosen_version(APIS[ApiKey.PRODUCE], {0: (14, 15)}, "b")
    with pytest.raises(UnsupportedApiError, match="unknown API Nonsense"):
        api_named("Nonsense")


def test_bootstrap_servers_are_parsed() -> None:
    assert parse_servers("a:1, b,[::1]:3,[::2]") == [
        ("a", 1),
        ("b", 9092),
        ("::1", 3),
        ("::2", 9092),
    ]
    for wrong in ("", "a:b", "a:99999", "a:1,"):
        with pytest.raises(ValueError, match="expected host:port"):
            parse_servers(wrong)
