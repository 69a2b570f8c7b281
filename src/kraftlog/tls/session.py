"""`TlsSession`: one side of a TLS connection, without a socket.

Its owner receives and sends; the session turns bytes of one kind into those of the other. So a
call never waits, its work is bounded by the bytes that it is given, and a partial send needs no
retry with the same plaintext, as OpenSSL would demand on a socket (decision 0026).
"""

from __future__ import annotations

import ssl

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

#: The largest record of TLS carries this much plaintext.
RECORD_BYTES = 16 << 10
#: A record's largest size on the wire, with header and tag.
WIRE_RECORD_BYTES = RECORD_BYTES + 512
#: The first byte of every handshake.
_HANDSHAKE = 0x16


class TlsError(Exception):
    """The session has failed; the text says why."""


class TlsSession:
    """Bytes given to `handshake` and `decrypt` may be overwritten afterwards."""

    __slots__ = ("_incoming", "_object", "_outgoing", "is_closed", "is_established")

    def __init__(self, context: ssl.SSLContext, server_name: str | None = None) -> None:
        """`server_name`: the host that this side has connected to; None for a listener."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_name is None,
            server_hostname=server_name,
        )
        self.is_established = False
        #: Whether the other side has said that it sends nothing more.
        self.is_closed = False

    def handshake(self, data: memoryview | bytes) -> bytes:
        """Go on with the handshake; returns the bytes to be sent.

        After a TlsError `unsent` has an alert that says why.
        """
        if data:
            self._incoming.write(data)
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise TlsError(reason(error)) from None
        else:
            self.is_established = True
        return self._outgoing.read()

    def unsent(self) -> bytes:
        return self._outgoing.read()

    @property
    def has_input(self) -> bool:
        """Whether more than the handshake has arrived; `decrypt` needs no new bytes for it."""
        return bool(self._incoming.pending)

    def peer_certificate(self) -> bytes | None:
        """The certificate of the other side in DER, if it has shown one."""
        return self._object.getpeercert(True)

    def decrypt(self, data: memoryview, rooms: Sequence[memoryview]) -> int:
        """Decrypt into the memory of `rooms`, one after the other; returns the number of bytes.

        The last room has space for all of it: for `data`, and for the record before it, of which
        OpenSSL may hold a part.
        """
        incoming, tls = self._incoming, self._object
        total, position, number = 0, 0, 0
        room = rooms[0]
        while True:
            # A record at a time, so that the buffers of OpenSSL stay small.
            incoming.write(data[position : position + WIRE_RECORD_BYTES])
            position += WIRE_RECORD_BYTES
            while incoming.pending or tls.pending():
                if not room:
                    number += 1
                    room = rooms[number]
                try:
                    count: Any = tls.read(len(room), room)  # a number, as it reads into `room`
                except ssl.SSLWantReadError:
                    break
                except ssl.SSLError as error:
                    raise TlsError(reason(error)) from None
                if not count:
                    self.is_closed = True
                    return total
                total += count
                room = room[count:]
            if position >= len(data):
                return total

    def encrypt(self, data: bytes) -> bytes:
        """The records for these bytes."""
        write, read = self._object.write, self._outgoing.read
        try:
            if len(data) <= RECORD_BYTES:
                write(data)
                return read()
            records = []
            view = memoryview(data)
            while view:
                view = view[write(view[:RECORD_BYTES]) :]
                records.append(read())
            return b"".join(records)
        except ssl.SSLError as error:
            raise TlsError(reason(error)) from None


def is_handshake(data: memoryview | bytes) -> bool:
    """Whether the first bytes of a connection are those of TLS."""
    return data[0] == _HANDSHAKE


def reason(error: ssl.SSLError) -> str:
    """Why a session has failed, in OpenSSL's words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    return (error.reason or "malformed").replace("_", " ").lower()
