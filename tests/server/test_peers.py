"""Lines to other nodes: whatever is asked on them is answered or told to be silent, once."""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.effects import Ask, PeerAnswered, PeerSilent, PeerVanished
from kraftlog.server.peers import Peers
from kraftlog.types import Now
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.frames import response_frame
from kraftlog.wire.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = Now(0, 0)
LIMIT_S = 30


class Wire:
    """Peers of a node, and the sockets at their other end."""

    def __init__(self) -> None:
        self.epoll = select.epoll()
        self.told: list[Any] = []
        self.is_broken = False
        self.peers = Peers(self.epoll, self._tell)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.numbers = 0

    def _tell(self, report: Any, _: Now) -> None:
        if self.is_broken:
            raise IndexError("ours")
        self.told.append(report)

    def ask(self, port: int = 0, host: str = "127.0.0.1") -> None:
        self.numbers += 1
        request = VoteRequest(cluster_id=None, voter_id=2, topics=())
        where = port or self.listener.getsockname()[1]
        self.peers.ask(Ask("quorum", 2, host, where, self.numbers, ApiKey.VOTE, 2, request, 1000))
        self.peers.send(NOW)

    def events(self) -> None:
        """What the system has to say next."""
        for fd, event in self.epoll.poll(LIMIT_S):
            if self.peers.owns(fd):
                self.peers.event(fd, event, NOW)

    def accept(self) -> socket.socket:
        """The other end, once it has got a request."""
        while not select.select([self.listener], [], [], 0)[0]:
            self.events()  # the name of where to connect to may have to be found first
        taken, _ = self.listener.accept()
        taken.settimeout(LIMIT_S)
        self.events()
        assert taken.recv(1 << 16)
        return taken

    def until_told(self) -> Any:
        while not self.told:
            self.events()
        return self.told.pop(0)


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire()
    yield made
    made.peers.close()
    made.listener.close()
    made.epoll.close()


def vote_answer(correlation: int) -> bytes:
    response = VoteResponse(error_code=0, topics=())
    return b"".join(response_frame(APIS[ApiKey.VOTE], 2, correlation, response))


def test_what_was_asked_of_a_peer_that_has_moved_is_told_to_be_silent_at_once(wire: Wire) -> None:
    wire.ask()
    with wire.accept(), socket.create_server(("127.0.0.1", 0)) as elsewhere:
        wire.ask(elsewhere.getsockname()[1])
        assert wire.told == [PeerSilent("quorum", 2, 1)]


def test_that_nobody_is_at_a_new_address_yet_is_no_proof_of_death(wire: Wire) -> None:
    wire.ask()
    with wire.accept():
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        wire.ask(port)
        assert wire.until_told() == PeerSilent("quorum", 2, 1)
        assert wire.until_told() == PeerSilent("quorum", 2, 2)
        assert not wire.told


def test_a_connection_that_ended_and_a_new_one_that_is_refused_are_proof(wire: Wire) -> None:
    wire.ask()
    with wire.accept():
        wire.listener.close()
    assert {type(wire.until_told()), type(wire.until_told())} == {PeerSilent, PeerVanished}


@pytest.mark.parametrize("garbage", [b"\xff" * 8, vote_answer(77), b"\0\0\0\5\0\0\0\1\xff"])
def test_what_is_no_answer_costs_the_line(wire: Wire, garbage: bytes) -> None:
    wire.ask()
    with wire.accept() as other:
        other.sendall(garbage)
        assert wire.until_told() == PeerSilent("quorum", 2, 1)


def test_an_answer_is_told_and_a_mistake_of_who_is_told_is_not_the_peers(wire: Wire) -> None:
    wire.ask()
    with wire.accept() as other:
        other.sendall(vote_answer(1))
        answered = wire.until_told()
        assert isinstance(answered, PeerAnswered)
        assert (answered.number, answered.response.error_code) == (1, 0)
        wire.is_broken = True
        wire.ask()
        assert other.recv(1 << 16)
        other.sendall(vote_answer(2))
        with pytest.raises(IndexError, match="ours"):
            wire.until_told()


def test_a_peer_with_a_name_is_found_and_its_death_is_proved_where_it_was(wire: Wire) -> None:
    """Of several places that a name has, all are tried."""
    wire.ask(host="localhost")
    with wire.accept() as other:
        other.sendall(vote_answer(1))
        assert isinstance(wire.until_told(), PeerAnswered)
        wire.ask(host="localhost")
        assert other.recv(1 << 16)
        wire.listener.close()
    assert {type(wire.until_told()), type(wire.until_told())} == {PeerSilent, PeerVanished}


def test_that_nobody_knows_a_name_is_no_proof_of_death(wire: Wire) -> None:
    wire.ask(host="no..host")
    assert wire.until_told() == PeerSilent("quorum", 2, 1)
    assert not wire.told


def test_answers_that_are_overdue_end_the_line_and_others_do_not(wire: Wire) -> None:
    """The first answer that was waited for is there, so the second one's time counts."""
    wire.ask()
    with wire.accept() as other:
        wire.numbers += 1
        request = VoteRequest(cluster_id=None, voter_id=2, topics=())
        where = wire.listener.getsockname()[1]
        later = Ask("quorum", 2, "127.0.0.1", where, 2, ApiKey.VOTE, 2, request, 5000)
        wire.peers.ask(later)
        wire.peers.send(NOW)
        other.sendall(vote_answer(1))
        assert isinstance(wire.until_told(), PeerAnswered)
        wire.peers.expire(Now(1000, 0))
        assert not wire.told
        assert wire.peers.deadline() == 5000
        wire.peers.expire(Now(5000, 0))
        assert wire.told == [PeerSilent("quorum", 2, 2)]
        assert wire.peers.deadline() is None
