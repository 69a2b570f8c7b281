"""`TlsListeners`: the certificates of a node's listeners, and the handshakes of their clients."""

from __future__ import annotations

import os
from collections import deque

from kraftlog.config.endpoints import WITH_TLS
from kraftlog.config.layers import ConfigLayers
from kraftlog.config.principals import principal_mapper
from kraftlog.config.tls import check_tls, tls_settings
from kraftlog.effects import printable
from kraftlog.errors import ConfigError
from kraftlog.node.channels import goes_to_brokers
from kraftlog.server.operator_log import log_line
from kraftlog.server.tls_connection import TlsConnection
from kraftlog.tls.certificates import parse_certificate
from kraftlog.tls.contexts import client_context, server_context, utc
from kraftlog.tls.session import TlsError, TlsSession
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ssl import SSLContext
    from typing import Any

    from kraftlog.config.broker import BrokerConfig
    from kraftlog.config.tls import TlsSettings
    from kraftlog.tls.certificates import Certificate
    from kraftlog.types import Now

#: A client has this long for its handshake.
HANDSHAKE_NS = 10_000_000_000
#: Failed handshakes of a listener are logged at most this often.
LOG_EVERY_NS = 1_000_000_000
#: A certificate that expires within this time is reported once a day.
EXPIRES_SOON_S = 14 * 86_400
REPORT_EVERY_MS = 86_400_000


class ReloadedSettings:
    """Settings of TLS whose files may change; subclasses make contexts of them."""

    #: How the log calls it, before its name.
    role = ""

    def __init__(self, name: str, settings: TlsSettings, now: Now) -> None:
        self.name = name
        self.settings = settings
        check_tls(settings)
        self._changed = _change_times(settings)
        self.load(settings, now)

    def load(self, settings: TlsSettings, now: Now) -> None:
        """Make a context; raises ConfigError and changes nothing if that is impossible."""
        raise NotImplementedError

    def reload(self, settings: TlsSettings, now: Now) -> None:
        """Use changed files and settings; the old ones stay in use if the new ones are invalid."""
        changed = _change_times(settings)
        if (changed, settings) == (self._changed, self.settings):
            return
        self._changed, self.settings = changed, settings
        try:
            check_tls(settings)
            self.load(settings, now)
        except ConfigError as error:
            log_line(
                f"{self.role} {self.name} keeps its certificates, because the new ones are "
                f"invalid: {error}"
            )
        else:
            log_line(f"{self.role} {self.name} uses new certificates or TLS settings")


def _change_times(settings: TlsSettings) -> tuple[tuple[int, int, int], ...]:
    """When the files changed, and which ones they are: a link may lead to another file."""
    times = []
    for path in settings.files:
        try:
            status = os.stat(path)
            times.append((status.st_mtime_ns, status.st_ino, status.st_size))
        except (OSError, ValueError):
            times.append((0, 0, 0))
    return tuple(times)


class TlsListener(ReloadedSettings):
    """A listener with TLS: its context, and counts of its handshakes."""

    role = "listener"
    context: SSLContext
    certificate: Certificate

    def __init__(self, name: str, protocol: str, settings: TlsSettings, now: Now) -> None:
        self.protocol = protocol
        self.succeeded_count = self.failed_count = 0
        self._logged_ns = -LOG_EVERY_NS
        self._unlogged = 0
        self._report_ms = 0
        #: Connections in order of the time at which their handshake is due.
        self.handshakes: deque[TlsConnection] = deque()
        super().__init__(name, settings, now)

    def load(self, settings: TlsSettings, now: Now) -> None:
        principal_of = principal_mapper(settings.text("ssl.principal.mapping.rules"))
        self.context, self.certificate = server_context(settings, now.wall_ms / 1000)
        self._map = principal_of

    def connection(self, *arguments: Any) -> TlsConnection:
        connection = TlsConnection(self, *arguments)
        self.handshakes.append(connection)
        return connection

    def principal_of(self, der: bytes) -> str:
        """The principal of a verified certificate; raises TlsError if no rule matches its name."""
        try:
            subject = parse_certificate(der).subject
        except ValueError as error:
            raise TlsError(str(error)) from None
        principal = self._map(subject)
        if principal is None:
            raise TlsError(f"no rule of ssl.principal.mapping.rules matches {printable(subject)}")
        return principal

    def succeeded(self) -> None:
        self.succeeded_count += 1

    def failed(self, connection: TlsConnection, why: str) -> None:
        """Count a failed handshake, and log it unless another one was logged just before."""
        self.failed_count += 1
        now_ns = connection.turns.began_ns
        if now_ns < self._logged_ns + LOG_EVERY_NS:
            self._unlogged += 1
            return
        others = f" ({self._unlogged} others failed since the last line)" if self._unlogged else ""
        self._logged_ns, self._unlogged = now_ns, 0
        log_line(
            f"closed the connection from {connection.peer}: no TLS handshake on {self.name}: {why}"
            f"{others}"
        )

    def expired(self, now_ns: int, limit: int) -> Iterator[TlsConnection]:
        """Up to `limit` connections whose handshake is overdue."""
        handshakes = self.handshakes
        while handshakes and limit:
            connection = handshakes[0]
            if not (connection.closed or connection.is_established):
                if connection.opened_ns + HANDSHAKE_NS > now_ns:
                    return
                limit -= 1
                self.failed(connection, f"it took more than {HANDSHAKE_NS // 10**9} s")
                yield connection
            handshakes.popleft()

    def report_expiry(self, now: Now) -> None:
        """Log once a day that the certificate expires soon, or has expired."""
        left_s = self.certificate.not_after_s - now.wall_ms // 1000
        if left_s > EXPIRES_SOON_S or now.monotonic_ms < self._report_ms:
            return
        self._report_ms = now.monotonic_ms + REPORT_EVERY_MS
        verb = "expires" if left_s > 0 else "expired"
        log_line(
            f"the certificate of {self.name} ({printable(self.certificate.subject)}) {verb} on "
            f"{utc(self.certificate.not_after_s)}"
        )


class TlsClient(ReloadedSettings):
    """This node's own connections to a listener of other nodes."""

    role = "this node as a client of"
    context: SSLContext

    def load(self, settings: TlsSettings, _: Now) -> None:
        self.context = client_context(settings)

    def session(self, host: str) -> TlsSession:
        return TlsSession(self.context, host)


class TlsListeners:
    """All listeners of a node with TLS, and the listeners of other nodes that it connects to."""

    def __init__(self, config: BrokerConfig, now: Now) -> None:
        self._protocols = config.protocols
        self._layers = layers = ConfigLayers(config.texts)
        self.listeners = {
            each.name: TlsListener(each.name, each.protocol, self._settings(layers, each.name), now)
            for each in config.listeners
            if each.protocol in WITH_TLS
        }
        self._clients: dict[str, TlsClient] = {}
        self._to_brokers = self._client(layers, config.inter_broker_listener_name, now)
        self._to_controllers = self._client(
            layers, config.controller_listener_names[0].upper(), now
        )

    def _settings(self, layers: ConfigLayers, name: str) -> TlsSettings:
        return tls_settings(layers, name, is_sasl=self._protocols.get(name) == "SASL_SSL")

    def _client(self, layers: ConfigLayers, name: str, now: Now) -> TlsClient | None:
        if self._protocols.get(name) not in WITH_TLS:
            return None
        if name not in self._clients:
            self._clients[name] = TlsClient(name, self._settings(layers, name), now)
        return self._clients[name]

    def client_of(self, channel: str) -> TlsClient | None:
        """TLS of a channel's connections; None without."""
        return self._to_brokers if goes_to_brokers(channel) else self._to_controllers

    def expired(self, now_ns: int, limit: int) -> Iterator[TlsConnection]:
        """Connections whose handshake is overdue."""
        for listener in self.listeners.values():
            yield from listener.expired(now_ns, limit)

    def reload(self, layers: ConfigLayers, now: Now) -> None:
        """Notice changed files and settings, and certificates that expire."""
        is_changed, self._layers = layers is not self._layers, layers
        for user in (*self.listeners.values(), *self._clients.values()):
            settings = self._settings(layers, user.name) if is_changed else user.settings
            user.reload(settings, now)
        for listener in self.listeners.values():
            listener.report_expiry(now)
