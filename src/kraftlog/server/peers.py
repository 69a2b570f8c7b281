"""Sockets to other nodes, for `runner.peers`."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket

from kraftlog.config.endpoints import MAX_PORT
from kraftlog.effects import printable
from kraftlog.runner.peers import MAX_PROBES, PeerChannel, PeerChannels
from kraftlog.runner.receive_buffer import FrameLengthError
from kraftlog.server.name_resolution import NameResolver, numeric_address
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.server.name_resolution import SocketAddress
    from kraftlog.server.tls_listeners import TlsListeners
    from kraftlog.tls.session import TlsSession
    from kraftlog.types import Now

__all__ = ["MAX_PROBES", "SocketPeers"]

#: The highest value of SO_RCVLOWAT: how many bytes must have arrived before epoll reports a socket.
MAX_LOW_WATER_BYTES = 1 << 20
#: If fewer bytes of a frame are missing, SO_RCVLOWAT is not worth a system call.
MIN_LOW_WATER_BYTES = 32 << 10
#: Bytes that one call receives in a handshake, and after it.
HANDSHAKE_READ_BYTES = 16 << 10
READ_BYTES = 256 << 10
#: Why a request has failed whose connection ended in its handshake.
TLS_CLOSED = "the connection was closed in the TLS handshake"
#: The most bytes that wait for a peer which only has OpenSSL respond, and does not read.
MAX_UNSENT_ANSWERS = 1 << 20
#: Results of `connect_ex` that are no failure.
_CONNECTING = {0, errno.EAGAIN, errno.EINPROGRESS}


class SocketChannel(PeerChannel):
    """A channel to a peer, and its socket."""

    def __init__(self, name: str, peer: int, address: tuple[str, int]) -> None:
        super().__init__(name, peer, address)
        self.sock: socket.socket | None = None
        self.fd = -1
        self.events = 0
        #: The address that was tried last; a reconnect begins with it.
        self.last_tried: SocketAddress | None = None
        #: Other addresses to try if the current one fails.
        self.alternatives: list[SocketAddress] = []
        #: Whether the host name is being resolved.
        self.is_resolving = False
        #: None if the listener of the peer has no TLS.
        self.session: TlsSession | None = None
        #: Encrypted bytes to be sent.
        self.encrypted = bytearray()
        #: SO_RCVLOWAT of the socket: epoll reports it once this many bytes have arrived.
        self.low_water_bytes = 1

    @property
    def is_open(self) -> bool:
        return self.sock is not None

    def forget_address(self) -> None:
        self.last_tried = None


class SocketPeers(PeerChannels):
    """All channels of a node, on the epoll of its loop."""

    channel_type = SocketChannel

    def __init__(self, epoll: select.epoll, notify: Callable[[Any, Now], None]) -> None:
        super().__init__(notify)
        self._epoll = epoll
        self._names = NameResolver()
        epoll.register(self._names.ready_fd, select.EPOLLIN)
        self._by_fd: dict[int, SocketChannel] = {}
        #: TLS of the listeners that this node connects to; None if none has it.
        self.tls: TlsListeners | None = None

    def owns(self, fd: int) -> bool:
        return fd in self._by_fd or fd == self._names.ready_fd

    def close(self) -> None:
        for channel in list(self._by_fd.values()):
            self._disconnect(channel)
        self._names.close()

    def event(self, fd: int, event: int, now: Now) -> None:
        if fd == self._names.ready_fd:
            self._names.deliver(now)
            return
        channel = self._by_fd[fd]
        if not channel.is_connected:
            if channel.session is None:
                self._connected(channel, now)
            else:
                self._handshake(channel, now)
        elif event & select.EPOLLIN:
            self._receive(channel, now)
        elif event & (select.EPOLLERR | select.EPOLLHUP):
            self.lost(channel, now)
        elif event & select.EPOLLOUT:
            self._flush(channel, now)

    # Connecting ----------------------------------------------------------------------------------

    def _connect(self, channel: SocketChannel, now: Now) -> None:
        """Connect to the address tried last, or else to those that the host name resolves to."""
        address = channel.address
        socket_address = channel.last_tried or numeric_address(*address)
        if not 0 < address[1] <= MAX_PORT:
            self._resolved(channel, [], now)
        elif socket_address is not None:
            self._try(channel, socket_address, now)
        elif not channel.is_resolving:
            channel.is_resolving = True

            def on_resolved(addresses: list[SocketAddress], now: Now) -> None:
                channel.is_resolving = False
                if channel.address == address and channel.sock is None:
                    self._resolved(channel, addresses, now)
                elif channel.in_flight and channel.sock is None:
                    self._connect(channel, now)

            self._names.resolve(*address, on_resolved)

    def _resolved(self, channel: SocketChannel, addresses: list[SocketAddress], now: Now) -> None:
        """Connect to one of the addresses; without any, the peer is not proved to be down."""
        if not addresses:
            host, port = channel.address
            is_valid_port = 0 < port <= MAX_PORT
            why = (
                f"the host name {printable(host)} is unknown"
                if is_valid_port
                else f"there is no port {port}"
            )
            self.lost(channel, now, probe=False, why=why)
        elif channel.in_flight:
            channel.has_ended = False  # the name may resolve to another host now
            channel.alternatives = addresses[1:]
            self._try(channel, addresses[0], now)

    def _try(self, channel: SocketChannel, socket_address: SocketAddress, now: Now) -> None:
        family, address = socket_address
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as failure:  # no descriptor is left, or the family is unsupported
            self._failed(channel, failure.errno or errno.EMFILE, now)
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel.sock, channel.fd, channel.is_connected = sock, sock.fileno(), False
        channel.low_water_bytes = 1
        channel.last_tried = socket_address
        error = sock.connect_ex(address)
        self._by_fd[channel.fd] = channel
        channel.events = select.EPOLLIN | select.EPOLLOUT
        self._epoll.register(channel.fd, channel.events)
        if error not in _CONNECTING:
            self._failed(channel, error, now)

    def _connected(self, channel: SocketChannel, now: Now) -> None:
        assert channel.sock is not None
        error = channel.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._failed(channel, error, now)
            return
        channel.alternatives.clear()
        client = self.tls.client_of(channel.name) if self.tls is not None else None
        if client is None:
            self.connected(channel, now)
        else:
            channel.session = client.session(channel.address[0])
            self._handshake(channel, now)

    def _handshake(self, channel: SocketChannel, now: Now) -> None:
        """Go on with a handshake; it ends in time like any opening (`SETUP_TIMEOUT_MS`)."""
        from kraftlog.tls.session import TlsError

        session = channel.session
        assert channel.sock is not None
        assert session is not None
        data = _received(channel.sock, HANDSHAKE_READ_BYTES)
        if data is None:
            # As without TLS, an immediate reconnect tells whether the peer is dead.
            channel.is_connected = True
            self.lost(channel, now, why=TLS_CLOSED)
            return
        try:
            channel.encrypted += session.handshake(data)
        except TlsError as error:
            with contextlib.suppress(OSError):
                channel.sock.send(session.unsent())  # an alert, which says why
            self.connect_failed(channel, now, why=f"the TLS handshake failed: {error}")
            return
        if session.is_established:
            self.connected(channel, now)
            if channel.session is session and session.has_input:
                self._receive_encrypted(channel, session, now)
        else:
            self._flush(channel, now)

    def _failed(self, channel: SocketChannel, error: int, now: Now) -> None:
        if channel.alternatives:
            self._close(channel)
            self._try(channel, channel.alternatives.pop(0), now)
            return
        self.connect_failed(
            channel,
            now,
            refused=error == errno.ECONNREFUSED,
            reset=error == errno.ECONNRESET,
            why=os.strerror(error),
        )

    # Bytes ---------------------------------------------------------------------------------------

    def _flush(self, channel: SocketChannel, now: Now) -> None:
        assert channel.sock is not None
        out = channel.out
        if channel.session is not None:
            out = channel.encrypted
            if channel.out and channel.is_connected:
                out += channel.session.encrypt(bytes(channel.out))
                channel.out.clear()
        elif not channel.is_connected:
            return
        try:
            if out:
                del out[: channel.sock.send(out)]
        except BlockingIOError:
            pass
        except OSError:
            self.lost(channel, now)
            return
        wanted = select.EPOLLIN | (select.EPOLLOUT if out else 0)
        if wanted != channel.events:
            channel.events = wanted
            self._epoll.modify(channel.fd, wanted)

    def _receive(self, channel: SocketChannel, now: Now) -> None:
        assert channel.sock is not None
        if channel.session is not None:
            self._receive_encrypted(channel, channel.session, now)
            return
        try:
            count = channel.sock.recv_into(channel.received.room())
            channel.received.received(count)
        except BlockingIOError:
            return
        except (OSError, FrameLengthError):
            count = 0
        self.received(channel, count, now)
        if channel.sock is not None:
            self._await_rest(channel)

    def _receive_encrypted(self, channel: SocketChannel, session: TlsSession, now: Now) -> None:
        """Receive and decrypt; nothing is lost if a record is still incomplete."""
        from kraftlog.tls.session import WIRE_RECORD_BYTES, TlsError

        assert channel.sock is not None
        data = _received(channel.sock, READ_BYTES)
        has_ended, data = data is None, data or b""
        room = memoryview(bytearray(len(data) + WIRE_RECORD_BYTES))
        try:
            count = session.decrypt(memoryview(data), [room])
        except TlsError as error:
            self.lost(channel, now, probe=False, why=f"TLS: {error}")
            return
        if answer := session.unsent():  # OpenSSL's own, such as to an update of keys
            channel.encrypted += answer
            if len(channel.encrypted) > MAX_UNSENT_ANSWERS:
                self.lost(channel, now, probe=False, why="TLS: it reads nothing")
                return
            self._flush(channel, now)
        if count:
            self.receive(channel, room[:count], now)
        if (has_ended or session.is_closed) and channel.session is session:
            self.lost(channel, now)

    def _await_rest(self, channel: SocketChannel) -> None:
        """Have epoll report the rest of a large response at once: each part would cost a turn.

        SO_RCVLOWAT is at most the missing bytes, and a closed connection is always reported.
        """
        missing = channel.received.missing
        low_water_bytes = 1 if missing < MIN_LOW_WATER_BYTES else min(missing, MAX_LOW_WATER_BYTES)
        if low_water_bytes != channel.low_water_bytes:
            assert channel.sock is not None
            channel.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water_bytes)
            channel.low_water_bytes = low_water_bytes

    def _close(self, channel: SocketChannel) -> None:
        if channel.sock is not None:
            self._by_fd.pop(channel.fd, None)
            self._epoll.unregister(channel.fd)
            channel.sock.close()
        channel.sock, channel.fd, channel.is_connected = None, -1, False
        channel.session = None
        channel.encrypted.clear()

    def _disconnect(self, channel: PeerChannel) -> None:
        super()._disconnect(channel)
        assert isinstance(channel, SocketChannel)
        channel.alternatives.clear()


def _received(sock: socket.socket, size: int) -> bytes | None:
    """The bytes that have arrived; None if the connection has ended."""
    try:
        return sock.recv(size) or None
    except BlockingIOError:
        return b""
    except OSError:
        return None
