"""A client connection with TLS: what it receives is decrypted into the arena, as if received there.

Requests and responses are those of a connection without TLS. Files are read instead of sent by the
kernel, because their bytes must be encrypted.
"""

from __future__ import annotations

import contextlib
import os
from itertools import repeat

from kraftlog.server.connections import Connection
from kraftlog.tls.session import WIRE_RECORD_BYTES, TlsError, TlsSession, is_handshake
from kraftlog.types import ANONYMOUS
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, NoReturn

    from kraftlog.node.authentication import Authenticator
    from kraftlog.node.node import Node
    from kraftlog.server.connections import Arena
    from kraftlog.server.tls_listeners import TlsListener
    from kraftlog.types import Now

#: Received bytes that are decrypted at once, before other connections have their turn.
READ_BYTES = 128 << 10
#: A handshake gets fewer at a time: a client's largest is one with a long chain of certificates.
HANDSHAKE_READ_BYTES = 16 << 10
#: What is read of a file and encrypted at once.
SLICE_BYTES = 256 << 10
#: Received bytes of all connections, one after the other; each decrypts them at once.
_received = memoryview(bytearray(READ_BYTES))


class TlsConnection(Connection):
    """Becomes a connection like others when its handshake is complete."""

    #: A record that has begun may be held back, so there must be room for it and for another one.
    least_room = 2 * WIRE_RECORD_BYTES

    def __init__(self, listener: TlsListener, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.listener = listener
        self.opened_ns = self.active_ns
        #: From the first byte on: half-open connections cost no more than those without TLS.
        self.session: TlsSession | None = None
        self.is_established = False
        #: Whether bytes that arrived with the last ones of the handshake are to be decrypted.
        self.has_early_data = False
        #: Whether the first item to be sent is encrypted.
        self.is_head_encrypted = False

    def receive(self, arena: Arena, node: Node | Authenticator, now: Now) -> None:
        if not self.is_established:
            self._handshake()
            if not self.has_early_data:
                return
        super().receive(arena, node, now)

    def close(self) -> None:
        super().close()
        self.session = None  # its listener may know this connection for some seconds more

    # The handshake -------------------------------------------------------------------------------

    def _handshake(self) -> None:
        try:
            count = self.sock.recv_into(_received[:HANDSHAKE_READ_BYTES])
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            if self.session is not None:
                self._fail("the client closed the connection")
            raise ConnectionResetError("closed by the peer")  # as health checks of ports do
        data = _received[:count]
        if self.session is None:
            if not is_handshake(data):
                self._fail(
                    "it is not TLS; clients need security.protocol="
                    f"{self.listener.protocol} for this listener"
                )
            self.session = TlsSession(self.listener.context)
        try:
            answer = self.session.handshake(data)
            if self.session.is_established:
                self.principal = self._principal_of(self.session.peer_certificate())
        except TlsError as error:
            with contextlib.suppress(OSError):
                self.sock.send(self.session.unsent())  # an alert, which says why
            self._fail(str(error))
        self.active_ns = self.turns.began_ns
        if answer:
            self._put_first(answer)
            self.mark_dirty()
        if self.session.is_established:
            self.is_established = True
            self.listener.succeeded()
            self.has_early_data = self.session.has_input

    def _principal_of(self, certificate: bytes | None) -> str:
        return ANONYMOUS if certificate is None else self.listener.principal_of(certificate)

    def _fail(self, why: str) -> NoReturn:
        self.listener.failed(self, why)
        raise ConnectionAbortedError(why)

    # Receiving -----------------------------------------------------------------------------------

    def _read(self, views: list[memoryview]) -> int:
        """Receive and decrypt; without a complete record there is nothing to read yet."""
        assert self.session is not None
        count = 0
        if self.has_early_data:
            self.has_early_data = False
        else:
            room = sum(map(len, views)) - WIRE_RECORD_BYTES
            count = super()._read([_received[: min(room, READ_BYTES)]])
        try:
            decrypted = self.session.decrypt(_received[:count], views)
        except TlsError as error:
            raise ConnectionResetError(f"TLS: {error}") from None
        if answer := self.session.unsent():
            # OpenSSL's own, such as to an update of keys: a client that does not read is paused.
            self._put_first(answer)
            self.mark_dirty()
        if not decrypted:
            if self.session.is_closed:
                raise ConnectionResetError("closed by the peer")
            raise BlockingIOError
        return decrypted

    # Sending -------------------------------------------------------------------------------------

    def _gather(self) -> list[Any]:
        """The encrypted bytes at the head of the queue; encrypts what comes next if there are none.

        Encrypted bytes cannot be taken back, so they stay the head until they are sent.
        """
        if not self.is_head_encrypted:
            pieces = super()._gather()
            data = b"".join(pieces) if pieces else self._read_slice()
            for _ in repeat(None, len(pieces)):
                self.out.popleft()
            assert self.session is not None
            try:
                encrypted = self.session.encrypt(data) if data else b""
            except TlsError as error:
                raise ConnectionResetError(f"TLS: {error}") from None
            self.unsent -= len(data)
            self._put_first(encrypted)
        return [self.out[0]]

    def _put_first(self, encrypted: bytes) -> None:
        """Make encrypted bytes the next to be sent, after those that already are."""
        if self.is_head_encrypted:
            self.out[0] = b"".join((self.out[0], encrypted))
        else:
            self.out.appendleft(encrypted)
        self.is_head_encrypted = True
        self.unsent += len(encrypted)

    def _read_slice(self) -> bytes:
        """The next bytes of the file slice at the head of the queue."""
        piece, at = self.out[0], self.slice_sent
        size = min(len(piece) - at, SLICE_BYTES)
        data = os.pread(piece.fd, size, piece.position + at)
        if not data:
            raise ConnectionResetError("a file is shorter than the length that was sent")
        self.in_files -= len(data)
        self.slice_sent += len(data)
        if self.slice_sent == len(piece):
            self.slice_sent = 0
            self.out.popleft()
            piece.release()
        return data

    def _send_bytes(self, pieces: list[Any]) -> bool:
        is_sent = super()._send_bytes(pieces)
        if is_sent:
            self.is_head_encrypted = False
        return is_sent
