"""Channels to other nodes: each request is reported once, with its response or as failed."""

from __future__ import annotations

import os
import resource
import select
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.config.sasl import SaslLogin
from kraftlog.effects import (
    ConnectionRefused,
    RequestFailed,
    ResponseReceived,
    SendRequest,
    VersionUnsupported,
)
from kraftlog.errors import ErrorCode
from kraftlog.runner.peer_login import PeerLogins
from kraftlog.runner.peers import ABORTED, CLOSED, NO_RESPONSE, REFUSED, SETUP_TIMEOUT_MS
from kraftlog.server.peers import MAX_PROBES, SocketPeers
from kraftlog.types import Now
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.frames import response_frame
from kraftlog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kraftlog.wire.messages.vote import (
    PartitionData,
    TopicData,
    TopicResult,
    VoteRequest,
    VoteResponse,
)
from tests.ports import free_ports
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NOW = Now(0, 0)
PLAIN = VoteRequest(cluster_id=None, voter_id=2, topics=())


def api_of(frame: bytes) -> tuple[int, int]:
    """The API and the version of a request."""
    key, version = struct.unpack_from(">hh", frame, 4)
    return key, version


def supported_versions_frame(max_vote_version: int) -> bytes:
    """A response to ApiVersions; a negative maximum says that the peer does not support Vote."""
    apis = [ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=0)]
    if max_vote_version >= 0:
        apis.append(ApiVersion(api_key=ApiKey.VOTE, min_version=0, max_version=max_vote_version))
    return api_versions_response_frame(0, apis)


def api_versions_response_frame(error: int, apis: Sequence[ApiVersion]) -> bytes:
    response = ApiVersionsResponse(error_code=error, api_keys=apis)
    return b"".join(response_frame(APIS[ApiKey.API_VERSIONS], 3, 0, response))


#: The report of the first request, if another one replaced it.
FIRST_ABORTED = RequestFailed("quorum", 2, 1, ABORTED, is_aborted=True)


class PeerLinks:
    """A node's `SocketPeers`, and the sockets at the other end of its connections."""

    def __init__(self) -> None:
        self.epoll = select.epoll()
        self.reports: list[Any] = []
        self.handler_fails = False
        self.peers = SocketPeers(self.epoll, self._notify)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.request_number = 0

    def _notify(self, report: Any, _: Now) -> None:
        if self.handler_fails:
            raise IndexError("ours")
        self.reports.append(report)

    def send_vote(
        self, port: int = 0, request: VoteRequest = PLAIN, host: str = "127.0.0.1"
    ) -> None:
        self.request_number += 1
        port = port or self.listener.getsockname()[1]
        self.peers.send(
            SendRequest("quorum", 2, host, port, self.request_number, ApiKey.VOTE, 2, request, 1000)
        )
        self.peers.flush(NOW)

    def handle_events(self) -> None:
        """Handle the next events of epoll."""
        ready = self.epoll.poll(LIMIT_S)
        assert ready, "no event"
        for fd, event in ready:
            if self.peers.owns(fd):
                self.peers.event(fd, event, NOW)

    def accept(self, max_vote_version: int = 2) -> socket.socket:
        """Accept the connection and respond to ApiVersions; return the socket."""
        while not select.select([self.listener], [], [], 0)[0]:
            self.handle_events()  # the host name may have to be resolved first
        sock, _ = self.listener.accept()
        sock.settimeout(LIMIT_S)
        while not select.select([sock], [], [], 0.05)[0]:
            self.handle_events()  # not needed if the connect has already completed
        assert api_of(sock.recv(1 << 16)) == (ApiKey.API_VERSIONS, 3)
        sock.sendall(supported_versions_frame(max_vote_version))
        self.handle_events()
        return sock

    def accept_with_request(self) -> socket.socket:
        """Accept the connection and receive a request; return the socket."""
        sock = self.accept()
        assert api_of(sock.recv(1 << 16)) == (ApiKey.VOTE, 2)
        return sock

    def next_report(self) -> Any:
        while not self.reports:
            self.handle_events()
        return self.reports.pop(0)


@pytest.fixture
def links() -> Iterator[PeerLinks]:
    links = PeerLinks()
    yield links
    links.peers.close()
    links.listener.close()
    links.epoll.close()


def vote_frame(correlation_id: int) -> bytes:
    response = VoteResponse(error_code=0, topics=())
    return b"".join(response_frame(APIS[ApiKey.VOTE], 2, correlation_id, response))


def test_requests_to_a_moved_peer_fail_at_once(links: PeerLinks) -> None:
    links.send_vote()
    with links.accept_with_request(), socket.create_server(("127.0.0.1", 0)) as moved:
        links.send_vote(moved.getsockname()[1])
        assert links.reports == [FIRST_ABORTED]


def test_a_refusal_at_a_new_address_is_no_proof_of_death(links: PeerLinks) -> None:
    links.send_vote()
    with links.accept_with_request():
        links.send_vote(free_ports(1)[0])
        assert links.next_report() == FIRST_ABORTED
        assert links.next_report() == RequestFailed("quorum", 2, 2, REFUSED)
        assert not links.reports


def test_a_refused_reconnect_proves_that_the_peer_is_down(links: PeerLinks) -> None:
    links.send_vote()
    with links.accept_with_request():
        links.listener.close()
    assert {type(links.next_report()), type(links.next_report())} == {
        RequestFailed,
        ConnectionRefused,
    }


@pytest.mark.parametrize("garbage", [b"\xff" * 8, vote_frame(77), b"\0\0\0\5\0\0\0\1\xff"])
def test_an_invalid_response_closes_the_channel(links: PeerLinks, garbage: bytes) -> None:
    links.send_vote()
    with links.accept_with_request() as other:
        other.sendall(garbage)
        assert links.next_report() == RequestFailed("quorum", 2, 1, CLOSED)


def large_vote_frame(correlation_id: int) -> bytes:
    """A response that takes several receives."""
    topics = [TopicResult(topic_name="t" * 1000, partitions=()) for _ in range(1000)]
    response = VoteResponse(error_code=0, topics=topics)
    return b"".join(response_frame(APIS[ApiKey.VOTE], 2, correlation_id, response))


def test_the_rest_of_a_large_response_is_reported_once(links: PeerLinks) -> None:
    """epoll reports the socket again only once the whole response has arrived.

    This saves turns of the loop.
    """
    links.send_vote()
    with links.accept_with_request() as other:
        response = memoryview(large_vote_frame(1))
        other.sendall(response[:100_000])
        for _ in range(10):  # the response is received in pieces while its buffer grows
            if not links.epoll.poll(0):
                break
            links.handle_events()
        else:
            pytest.fail("epoll reports a part of the rest")
        other.sendall(response[100_000:150_000])
        assert links.epoll.poll(0) == []
        with ThreadPoolExecutor(1) as pool:  # the sockets may not have room for all of it
            sent = pool.submit(other.sendall, response[150_000:])
            assert links.next_report().number == 1
            sent.result(LIMIT_S)
        links.send_vote()
        assert other.recv(1 << 16)
        other.sendall(vote_frame(2))
        assert links.next_report().number == 2


def test_a_connection_that_ends_in_a_large_response_fails_the_request(links: PeerLinks) -> None:
    links.send_vote()
    with links.accept_with_request() as other:
        other.sendall(large_vote_frame(1)[:100_000])
        links.handle_events()
    assert links.next_report() == RequestFailed("quorum", 2, 1, CLOSED)


def test_an_error_in_the_response_handler_is_raised(links: PeerLinks) -> None:
    links.send_vote()
    with links.accept_with_request() as other:
        other.sendall(vote_frame(1))
        report = links.next_report()
        assert isinstance(report, ResponseReceived)
        assert (report.number, report.response.error_code) == (1, 0)
        links.handler_fails = True
        links.send_vote()
        assert other.recv(1 << 16)
        other.sendall(vote_frame(2))
        with pytest.raises(IndexError, match="ours"):
            links.next_report()


def test_a_named_peer_is_proved_down_at_its_last_address(links: PeerLinks) -> None:
    """All addresses of a name are tried."""
    links.send_vote(host="localhost")
    with links.accept_with_request() as other:
        other.sendall(vote_frame(1))
        assert isinstance(links.next_report(), ResponseReceived)
        links.send_vote(host="localhost")
        assert other.recv(1 << 16)
        links.listener.close()
    assert {type(links.next_report()), type(links.next_report())} == {
        RequestFailed,
        ConnectionRefused,
    }


def test_an_unknown_name_is_no_proof_of_death(links: PeerLinks) -> None:
    links.send_vote(host="no..host")
    assert links.next_report() == RequestFailed("quorum", 2, 1, "the host name no..host is unknown")
    assert not links.reports


def test_an_unknown_name_cannot_forge_a_log_line(links: PeerLinks) -> None:
    links.send_vote(host="no..\nhost" + "x" * 1000)
    report = links.next_report()
    assert isinstance(report, RequestFailed)
    assert report.reason == f"the host name no..?host{'x' * 91}... is unknown"


def test_only_overdue_requests_close_the_channel(links: PeerLinks) -> None:
    """The first response has arrived, so the timeout of the second request counts."""
    links.send_vote()
    with links.accept_with_request() as other:
        port = links.listener.getsockname()[1]
        later = SendRequest("quorum", 2, "127.0.0.1", port, 2, ApiKey.VOTE, 2, PLAIN, 5000)
        links.peers.send(later)
        links.peers.flush(NOW)
        other.sendall(vote_frame(1))
        assert isinstance(links.next_report(), ResponseReceived)
        links.peers.expire(Now(1000, 0))
        assert not links.reports
        assert links.peers.deadline() == 5000
        links.peers.expire(Now(5000, 0))
        assert links.reports == [RequestFailed("quorum", 2, 2, NO_RESPONSE)]
        assert links.peers.deadline() is None


def test_a_request_may_use_a_connection_of_its_own(links: PeerLinks) -> None:
    """Through a load balancer the connection may reach any node: its end proves no peer down."""
    port = links.listener.getsockname()[1]
    for number in (1, 2):
        links.peers.send(
            SendRequest(
                "d", -2, "127.0.0.1", port, number, ApiKey.VOTE, 2, PLAIN, 1000, closes=True
            )
        )
        links.peers.flush(NOW)
        with links.accept_with_request() as other:
            other.sendall(vote_frame(number))
            report = links.next_report()
            assert (type(report), report.number) == (ResponseReceived, number)
            assert other.recv(1) == b"", "the node closes it after the response"
    links.peers.expire(Now(5000, 0))
    assert not links.reports


def test_a_request_that_another_one_replaces_is_aborted(links: PeerLinks) -> None:
    """The peer may respond to both requests."""
    links.send_vote()
    with links.accept_with_request():
        port = links.listener.getsockname()[1]
        links.peers.send(
            SendRequest(
                "quorum",
                2,
                "127.0.0.1",
                port,
                9,
                ApiKey.VOTE,
                2,
                PLAIN,
                1000,
                needs_new_connection=True,
            )
        )
        links.peers.flush(NOW)
        assert links.reports == [FIRST_ABORTED]


def pre_vote() -> VoteRequest:
    partition = PartitionData(
        partition_index=0,
        replica_epoch=1,
        replica_id=1,
        last_offset_epoch=1,
        last_offset=1,
        pre_vote=True,
    )
    return PLAIN.replace(topics=[TopicData(topic_name="t", partitions=[partition])])


def test_an_older_peer_gets_its_newest_version(links: PeerLinks) -> None:
    """C120: the request is sent in the newest version that the peer supports."""
    links.send_vote()
    with links.accept(max_vote_version=1) as other:
        assert api_of(other.recv(1 << 16)) == (ApiKey.VOTE, 1)
        other.sendall(vote_frame(1))
        report = links.next_report()
        assert isinstance(report, ResponseReceived)
        assert report.number == 1


@pytest.mark.parametrize(("max_vote_version", "request_"), [(1, pre_vote()), (-1, PLAIN)])
def test_unsupported_requests_are_reported_and_not_sent(
    links: PeerLinks, max_vote_version: int, request_: VoteRequest
) -> None:
    """C120: the request, or its version, is unsupported; the channel stays open."""
    links.send_vote(request=request_)
    with links.accept(max_vote_version):
        assert links.next_report() == VersionUnsupported("quorum", 2, 1)
        links.send_vote(request=request_)
        assert links.next_report() == VersionUnsupported("quorum", 2, 2)


VOTES = [ApiVersion(api_key=ApiKey.VOTE, min_version=0, max_version=2)]


@pytest.mark.parametrize(
    "garbage",
    [
        vote_frame(1),
        b"\0\0\0\5\0\0\0\0\xff",
        api_versions_response_frame(ErrorCode.UNSUPPORTED_VERSION, VOTES),
        api_versions_response_frame(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ()),
        api_versions_response_frame(0, ()),
    ],
    ids=["another request's", "garbage", "unsupported", "error without apis", "no apis"],
)
def test_an_invalid_api_versions_response_closes_the_channel(
    links: PeerLinks, garbage: bytes
) -> None:
    links.send_vote()
    sock, _ = links.listener.accept()
    with sock:
        links.handle_events()
        sock.sendall(garbage)
        assert links.next_report() == RequestFailed("quorum", 2, 1, CLOSED)


def test_a_failed_connect_is_not_retried_by_itself(links: PeerLinks) -> None:
    """C119: the request fails, and nothing retries; another request tries once more."""
    links.listener.close()
    for number in (1, 2):
        links.send_vote(free_ports(1)[0])
        assert links.next_report() == RequestFailed("quorum", 2, number, REFUSED)
        assert links.peers.deadline() is None
        assert not links.epoll.poll(0)


def test_reconnects_to_a_peer_that_always_closes_are_limited(links: PeerLinks) -> None:
    """The peer's process may be dead, so a disconnect causes a reconnect, `MAX_PROBES` in a row."""
    links.send_vote()
    for _ in range(1 + MAX_PROBES):
        while not select.select([links.listener], [], [], 0)[0]:
            links.handle_events()
        sock, _ = links.listener.accept()
        sock.close()
    assert links.next_report() == RequestFailed("quorum", 2, 1, CLOSED)
    while links.epoll.poll(0):
        links.handle_events()
        assert not select.select([links.listener], [], [], 0)[0]


def test_a_reconnect_that_gets_no_response_is_given_up(links: PeerLinks) -> None:
    """A machine that lost power with the request unread never ends the connection."""
    links.send_vote()
    links.accept_with_request().close()
    assert links.next_report() == RequestFailed("quorum", 2, 1, CLOSED)
    due_ms = NOW.monotonic_ms + SETUP_TIMEOUT_MS
    assert links.peers.flush(NOW) == due_ms, "the loop wakes for it, though no request waits"
    while not select.select([links.listener], [], [], 0)[0]:
        links.handle_events()
    silent, _ = links.listener.accept()
    with silent:
        assert links.peers.deadline() == due_ms
        links.peers.expire(Now(due_ms, 0))
        assert links.peers.deadline() is None
        links.send_vote()
        links.accept_with_request().close()


def test_a_channel_lost_during_a_read_is_reset(links: PeerLinks) -> None:
    """Bytes after the first response belong to the connection whose write failed."""
    links.send_vote()
    sock, _ = links.listener.accept()
    links.handle_events()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.sendall(supported_versions_frame(2) + vote_frame(1))
    sock.close()  # a reset: the node can still read the received bytes, but sends fail
    assert links.next_report() == RequestFailed("quorum", 2, 1, CLOSED)
    links.send_vote()
    with links.accept_with_request() as other:
        other.sendall(vote_frame(2))
        assert isinstance(links.next_report(), ResponseReceived)


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_a_descriptor_requests_fail_until_there_is_one(links: PeerLinks) -> None:
    with no_descriptor_left():
        links.send_vote()
        assert links.reports == [RequestFailed("quorum", 2, 1, "Too many open files")]
    links.reports.clear()
    links.send_vote()
    links.accept_with_request().close()


@pytest.mark.parametrize(
    ("host", "port", "reason"),
    [
        ("127.0.0.1", -1, "there is no port -1"),
        ("127.0.0.1", 65536, "there is no port 65536"),
        ("localhost", 65536 + 9093, "there is no port 74629"),
        ("a\0b", 9093, "the host name a?b is unknown"),
    ],
)
def test_an_invalid_address_fails(links: PeerLinks, host: str, port: int, reason: str) -> None:
    """Nodes send each other addresses with 32-bit ports."""
    links.send_vote(host=host, port=port)
    assert links.next_report() == RequestFailed("quorum", 2, 1, reason)
    assert not links.epoll.poll(0)


def test_closing_peers_leaks_no_descriptor() -> None:
    with select.epoll() as epoll:
        peers = SocketPeers(epoll, lambda *_: None)
        fd = peers._names.ready_fd
        peers.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


@pytest.mark.parametrize("last", [-1, None])
def test_a_peer_without_logins_is_asked_again_only_when_needed(
    links: PeerLinks, last: int | None
) -> None:
    """It serves no SaslHandshake, or (None) closes the connection instead of the login."""
    links.peers.logins = PeerLogins(None, SaslLogin("PLAIN", "me", "secret"), lambda: "nonce")
    apis = [ApiVersion(api_key=ApiKey.SASL_HANDSHAKE, min_version=0, max_version=last or 1)]
    links.send_vote()
    opened = 0
    while not links.reports and opened < 2 * MAX_PROBES:
        while not select.select([links.listener], [], [], 0)[0]:
            links.handle_events()
        sock, _ = links.listener.accept()
        opened += 1
        with sock:
            sock.settimeout(LIMIT_S)
            while not select.select([sock], [], [], 0.05)[0]:
                links.handle_events()
            assert api_of(sock.recv(1 << 16)) == (ApiKey.API_VERSIONS, 3)
            sock.sendall(api_versions_response_frame(0, apis))
            links.handle_events()
    while links.epoll.poll(0):
        links.handle_events()
    assert opened <= 1 + MAX_PROBES
    assert isinstance(links.next_report(), RequestFailed)
