"""Listening sockets and peer addresses."""

from __future__ import annotations

import errno
import socket

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.server.tls_listeners import TlsListener

#: Errors of a machine without IPv6.
_NO_IPV6 = {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}
_MAPPED = "::ffff:"


class ListeningSocket:
    """The socket of a listener, its name in `listeners`, and the APIs that it serves."""

    def __init__(
        self, sock: socket.socket, name: str, serves: int, tls: TlsListener | None = None
    ) -> None:
        self.sock = sock
        self.name = name
        #: BROKER, CONTROLLER or both.
        self.serves = serves
        self.tls = tls


def bind(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet.

    Without a host it accepts IPv4 and IPv6 on all addresses, as with Kafka.
    """
    if host:
        return _bound(socket.AF_INET6 if ":" in host else socket.AF_INET, host, port)
    try:
        return _bound(socket.AF_INET6, "::", port)
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise
        return _bound(socket.AF_INET, "", port)


def _bound(family: int, host: str, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != "::")
        sock.setblocking(False)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


def host_of(address: tuple[str, int]) -> str:
    """The peer address of a connection; IPv4 addresses look the same on every socket."""
    host = address[0]
    return host[len(_MAPPED) :] if host.startswith(_MAPPED) and "." in host else host


def set_client_options(sock: socket.socket) -> None:
    """Set Kafka's socket options: keep-alive to detect dead peers, and TCP_NODELAY."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
