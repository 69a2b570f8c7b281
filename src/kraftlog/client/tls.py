"""TLS for the client: a context by the properties of Kafka's clients, and the handshake."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache

from kraftlog.config.tls import KEYSTORE, TRUSTSTORE, check_tls, client_settings
from kraftlog.errors import AuthenticationError, UnreachableError
from kraftlog.tls.contexts import client_context
from kraftlog.tls.stores import refuse_unreadable_types
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping


def check(properties: Mapping[str, str]) -> None:
    """Refuse what cannot be used, before the first connection."""
    settings = client_settings(properties)
    check_tls(settings)
    for store in (KEYSTORE, TRUSTSTORE):
        refuse_unreadable_types(settings, store)


def context_of(properties: tuple[tuple[str, str], ...]) -> ssl.SSLContext:
    """A context for these properties; a new one if a file has changed since the last one."""
    files = [value for key, value in properties if key.endswith(".location")]
    return _context_of(properties, tuple(map(_changed_ns, files)))


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return 0  # the context says what is wrong with it


@lru_cache(maxsize=8)
def _context_of(pairs: tuple[tuple[str, str], ...], _: tuple[int, ...]) -> ssl.SSLContext:
    return client_context(client_settings(dict(pairs)))


def handshake(
    plain: socket.socket, context: ssl.SSLContext, host: str, address: str
) -> ssl.SSLSocket:
    """Protect a connected socket, whose timeout limits the handshake."""
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise AuthenticationError(
            f"{address}: its certificate is not accepted: {error.verify_message} (the authorities "
            "are those of ssl.truststore.location, or else of the system)"
        ) from None
    except ssl.SSLError as error:
        raise AuthenticationError(f"{address}: the TLS handshake failed: {_alert(error)}") from None
    except TimeoutError:
        raise UnreachableError(
            f"{address}: no TLS handshake in time; is this a listener with TLS?"
        ) from None
    except OSError as error:
        raise UnreachableError(f"{address}: {os.strerror(error.errno or 0)}") from None


def _alert(error: ssl.SSLError) -> str:
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "wrong version number" in reason or "record layer failure" in reason:
        return "the listener does not speak TLS"
    if "unexpected eof" in reason:
        return "the broker closed the connection; is this a listener with TLS?"
    return reason
