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

from kraftlog.effects import (
    PeerDown,
    RequestFailed,
    ResponseReceived,
    SendRequest,
    VersionUnsupported,
)
from kraftlog.errors import ErrorCode
from kraftlog.runner.peers import ABORTED, CLOSED, NO_RESPONSE, REFUSED
from kraftlog.server.peers import MAX_PROBES, Peers
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
from tests.patience import LIMIT_S
from tests.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NOW = Now(0, 0)
PLAIN = VoteRequest(cluster_id=None, voter_id=2, topics=())


def api_of(frame: bytes) -> tuple[int, int]:
    """The API and the version of a request."""
    key, version = struct.unpack_from(">hh", frame, 4)
    return key, version


def supported_versions_frame(votes_up_to: int) -> bytes:
    """The APIs of a peer: ApiVersions, and Vote if it supports any version."""
    known = [ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=0)]
    if votes_up_to >= 0:
        known.append(ApiVersion(api_key=ApiKey.VOTE, min_version=0, max_version=votes_up_to))
    return api_versions_response_frame(0, known)


def api_versions_response_frame(error: int, known: Sequence[ApiVersion]) -> bytes:
    response = ApiVersionsResponse(error_code=error, api_keys=known)
    return b"".join(response_frame(APIS[ApiKey.API_VERSIONS], 3, 0, response))


#: The report of the first request, if another one replaced it.
FIRST_ABORTED = RequestFailed("quorum", 2, 1, ABORTED, is_aborted=True)


class Wire:
    """A node's peers, and the sockets at the other end."""

    def __init__(self) -> None:
        self.epoll = select.epoll()
        self.reports: list[Any] = []
        self.is_broken = False
        self.peers = Peers(self.epoll, self._notify)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.numbers = 0

    def _notify(self, report: Any, _: Now) -> None:
        if self.is_broken:
            raise IndexError("ours")
        self.reports.append(report)

    def ask(self, port: int = 0, request: VoteRequest = PLAIN, host: str = "127.0.0.1") -> None:
        self.numbers += 1
        port = port or self.listener.getsockname()[1]
        self.peers.send(
            SendRequest("quorum", 2, host, port, self.numbers, ApiKey.VOTE, 2, request, 1000)
        )
        self.peers.flush(NOW)

    def events(self) -> None:
        """Handle the next events of epoll."""
        found = self.epoll.poll(LIMIT_S)
        assert found, "no event"
        for fd, event in found:
            if self.peers.owns(fd):
                self.peers.event(fd, event, NOW)

    def accept(self, votes_up_to: int = 2) -> socket.socket:
        """Accept the connection and respond to ApiVersions; return the socket."""
        while not select.select([self.listener], [], [], 0)[0]:
            self.events()  # the name may have to be resolved first
        sock, _ = self.listener.accept()
        sock.settimeout(LIMIT_S)
        while not select.select([sock], [], [], 0.05)[0]:
            self.events()  # the connect may have completed before
        assert api_of(sock.recv(1 << 16)) == (ApiKey.API_VERSIONS, 3)
        sock.sendall(supported_versions_frame(votes_up_to))
        self.events()
        return sock

    def accept_with_request(self) -> socket.socket:
        """Accept the connection and receive a request; return the socket."""
        sock = self.accept()
        assert api_of(sock.recv(1 << 16)) == (ApiKey.VOTE, 2)
        return sock

    def next_report(self) -> Any:
        while not self.reports:
            self.events()
        return self.reports.pop(0)


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire()
    yield made
    made.peers.close()
    made.listener.close()
    made.epoll.close()


def vote_frame(correlation: int) -> bytes:
    response = VoteResponse(error_code=0, topics=())
    return b"".join(response_frame(APIS[ApiKey.VOTE], 2, correlation, response))


def test_requests_to_a_moved_peer_fail_at_once(wire: Wire) -> None:
    wire.ask()
    with wire.accept_with_request(), socket.create_server(("127.0.0.1", 0)) as moved:
        wire.ask(moved.getsockname()[1])
        assert wire.reports == [FIRST_ABORTED]


def test_a_refusal_at_a_new_address_is_no_proof_of_death(wire: Wire) -> None:
    wire.ask()
    with wire.accept_with_request():
        wire.ask(free_ports(1)[0])
        assert wire.next_report() == FIRST_ABORTED
        assert wire.next_report() == RequestFailed("quorum", 2, 2, REFUSED)
        assert not wire.reports


def test_a_refused_reconnect_proves_that_the_peer_is_down(wire: Wire) -> None:
    wire.ask()
    with wire.accept_with_request():
        wire.listener.close()
    assert {type(wire.next_report()), type(wire.next_report())} == {RequestFailed, PeerDown}


@pytest.mark.parametrize("garbage", [b"\xff" * 8, vote_frame(77), b"\0\0\0\5\0\0\0\1\xff"])
def test_an_invalid_response_closes_the_channel(wire: Wire, garbage: bytes) -> None:
    wire.ask()
    with wire.accept_with_request() as other:
        other.sendall(garbage)
        assert wire.next_report() == RequestFailed("quorum", 2, 1, CLOSED)


def large_vote_frame(correlation: int) -> bytes:
    """A response that takes several receives."""
    topics = [TopicResult(topic_name="t" * 1000, partitions=()) for _ in range(1000)]
    response = VoteResponse(error_code=0, topics=topics)
    return b"".join(response_frame(APIS[ApiKey.VOTE], 2, correlation, response))


def test_the_rest_of_a_large_response_is_reported_once(wire: Wire) -> None:
    """The host polls again only once all of it is there, as each part would cost a turn."""
    wire.ask()
    with wire.accept_with_request() as other:
        answer = memoryview(large_vote_frame(1))
        other.sendall(answer[:100_000])
        for _ in range(10):  # it is received in pieces while its buffer grows
            if not wire.epoll.poll(0):
                break
            wire.events()
        else:
            pytest.fail("epoll reports a part of the rest")
        other.sendall(answer[100_000:150_000])
        assert wire.epoll.poll(0) == []
        with ThreadPoolExecutor(1) as pool:  # the sockets may not have room for all of it
            sent = pool.submit(other.sendall, answer[150_000:])
            assert wire.next_report().number == 1
            sent.result(LIMIT_S)
        wire.ask()
        assert other.recv(1 << 16)
        other.sendall(vote_frame(2))
        assert wire.next_report().number == 2


def test_a_connection_that_ends_in_a_large_response_fails_the_request(wire: Wire) -> None:
    wire.ask()
    with wire.accept_with_request() as other:
        other.sendall(large_vote_frame(1)[:100_000])
        wire.events()
    assert wire.next_report() == RequestFailed("quorum", 2, 1, CLOSED)


def test_an_error_in_the_handler_is_not_the_peers_fault(wire: Wire) -> None:
    wire.ask()
    with wire.accept_with_request() as other:
        other.sendall(vote_frame(1))
        answered = wire.next_report()
        assert isinstance(answered, ResponseReceived)
        assert (answered.number, answered.response.error_code) == (1, 0)
        wire.is_broken = True
        wire.ask()
        assert other.recv(1 << 16)
        other.sendall(vote_frame(2))
        with pytest.raises(IndexError, match="ours"):
            wire.next_report()


def test_a_named_peer_is_proved_down_at_its_last_address(wire: Wire) -> None:
    """All addresses of a name are tried."""
    wire.ask(host="localhost")
    with wire.accept_with_request() as other:
        other.sendall(vote_frame(1))
        assert isinstance(wire.next_report(), ResponseReceived)
        wire.ask(host="localhost")
        assert other.recv(1 << 16)
        wire.listener.close()
    assert {type(wire.next_report()), type(wire.next_report())} == {RequestFailed, PeerDown}


def test_an_unknown_name_is_no_proof_of_death(wire: Wire) -> None:
    wire.ask(host="no..host")
    assert wire.next_report() == RequestFailed("quorum", 2, 1, "the host name no..host is unknown")
    assert not wire.reports


def test_an_unknown_name_cannot_forge_a_line(wire: Wire) -> None:
    wire.ask(host="no..\nhost" + "x" * 1000)
    report = wire.next_report()
    assert isinstance(report, RequestFailed)
    assert report.reason == f"the host name no..?host{'x' * 91}... is unknown"


def test_only_overdue_requests_close_the_channel(wire: Wire) -> None:
    """The first response has arrived, so the timeout of the second request counts."""
    wire.ask()
    with wire.accept_with_request() as other:
        where = wire.listener.getsockname()[1]
        later = SendRequest("quorum", 2, "127.0.0.1", where, 2, ApiKey.VOTE, 2, PLAIN, 5000)
        wire.peers.send(later)
        wire.peers.flush(NOW)
        other.sendall(vote_frame(1))
        assert isinstance(wire.next_report(), ResponseReceived)
        wire.peers.expire(Now(1000, 0))
        assert not wire.reports
        assert wire.peers.deadline() == 5000
        wire.peers.expire(Now(5000, 0))
        assert wire.reports == [RequestFailed("quorum", 2, 2, NO_RESPONSE)]
        assert wire.peers.deadline() is None


def test_a_request_may_use_a_connection_of_its_own(wire: Wire) -> None:
    """Through a load balancer it may reach any node, so its end proves no peer to be down."""
    where = wire.listener.getsockname()[1]
    for number in (1, 2):
        wire.peers.send(
            SendRequest(
                "d", -2, "127.0.0.1", where, number, ApiKey.VOTE, 2, PLAIN, 1000, closes=True
            )
        )
        wire.peers.flush(NOW)
        with wire.accept_with_request() as other:
            other.sendall(vote_frame(number))
            report = wire.next_report()
            assert (type(report), report.number) == (ResponseReceived, number)
            assert other.recv(1) == b"", "the node closes it after the response"
    wire.peers.expire(Now(5000, 0))
    assert not wire.reports


def test_a_request_that_another_one_replaces_is_aborted(wire: Wire) -> None:
    """The peer may respond to both requests."""
    wire.ask()
    with wire.accept_with_request():
        where = wire.listener.getsockname()[1]
        wire.peers.send(
            SendRequest(
                "quorum",
                2,
                "127.0.0.1",
                where,
                9,
                ApiKey.VOTE,
                2,
                PLAIN,
                1000,
                needs_new_connection=True,
            )
        )
        wire.peers.flush(NOW)
        assert wire.reports == [FIRST_ABORTED]


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


def test_an_older_peer_gets_its_newest_version(wire: Wire) -> None:
    """C120: the request is sent in the newest version that the peer supports."""
    wire.ask()
    with wire.accept(votes_up_to=1) as other:
        assert api_of(other.recv(1 << 16)) == (ApiKey.VOTE, 1)
        other.sendall(vote_frame(1))
        answered = wire.next_report()
        assert isinstance(answered, ResponseReceived)
        assert answered.number == 1


@pytest.mark.parametrize(("votes_up_to", "request_"), [(1, pre_vote()), (-1, PLAIN)])
def test_unsupported_requests_are_reported_and_not_sent(
    wire: Wire, votes_up_to: int, request_: VoteRequest
) -> None:
    """C120: the request, or its version, is unsupported; the channel stays open."""
    wire.ask(request=request_)
    with wire.accept(votes_up_to):
        assert wire.next_report() == VersionUnsupported("quorum", 2, 1)
        wire.ask(request=request_)
        assert wire.next_report() == VersionUnsupported("quorum", 2, 2)


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
def test_an_invalid_api_versions_response_closes_the_channel(wire: Wire, garbage: bytes) -> None:
    wire.ask()
    sock, _ = wire.listener.accept()
    with sock:
        wire.events()
        sock.sendall(garbage)
        assert wire.next_report() == RequestFailed("quorum", 2, 1, CLOSED)


def test_a_failed_connect_is_not_retried_by_itself(wire: Wire) -> None:
    """C119: the request fails, and nothing retries; another request tries once more."""
    wire.listener.close()
    for number in (1, 2):
        wire.ask(free_ports(1)[0])
        assert wire.next_report() == RequestFailed("quorum", 2, number, REFUSED)
        assert wire.peers.deadline() is None
        assert not wire.epoll.poll(0)


def test_reconnects_to_a_peer_that_always_closes_are_limited(wire: Wire) -> None:
    """A disconnect causes a reconnect, as the process may be dead; only a few times in a row."""
    wire.ask()
    for _ in range(1 + MAX_PROBES):
        while not select.select([wire.listener], [], [], 0)[0]:
            wire.events()
        sock, _ = wire.listener.accept()
        sock.close()
    assert wire.next_report() == RequestFailed("quorum", 2, 1, CLOSED)
    while wire.epoll.poll(0):
        wire.events()
        assert not select.select([wire.listener], [], [], 0)[0]


def test_a_channel_lost_during_a_read_is_reset(wire: Wire) -> None:
    """Bytes after the first response belong to the connection whose write failed."""
    wire.ask()
    sock, _ = wire.listener.accept()
    wire.events()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.sendall(supported_versions_frame(2) + vote_frame(1))
    sock.close()  # a reset: received bytes can be read, and none sent
    assert wire.next_report() == RequestFailed("quorum", 2, 1, CLOSED)
    wire.ask()
    with wire.accept_with_request() as other:
        other.sendall(vote_frame(2))
        assert isinstance(wire.next_report(), ResponseReceived)


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_a_descriptor_requests_fail_until_there_is_one(wire: Wire) -> None:
    with no_descriptor_left():
        wire.ask()
        assert wire.reports == [RequestFailed("quorum", 2, 1, "Too many open files")]
    wire.reports.clear()
    wire.ask()
    wire.accept_with_request().close()


@pytest.mark.parametrize(
    ("host", "port", "why"),
    [
        ("127.0.0.1", -1, "there is no port -1"),
        ("127.0.0.1", 65536, "there is no port 65536"),
        ("localhost", 65536 + 9093, "there is no port 74629"),
        ("a\0b", 9093, "the host name a?b is unknown"),
    ],
)
def test_an_invalid_address_fails(wire: Wire, host: str, port: int, why: str) -> None:
    """Nodes send each other addresses with 32-bit ports."""
    wire.ask(host=host, port=port)
    assert wire.next_report() == RequestFailed("quorum", 2, 1, why)
    assert not wire.epoll.poll(0)


def test_closing_peers_leaks_no_descriptor() -> None:
    with select.epoll() as epoll:
        peers = Peers(epoll, lambda *_: None)
        fd = peers._names.ready_fd
        peers.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
