"""The client side of connections to other nodes: sends requests, and reports their outcome.

A channel to a peer is one connection, opened for the first request. It begins with ApiVersions,
and with a login if the peer's listener has SASL; other requests wait for these responses and use
the newest version that both sides support. A request that times out closes the connection, so its
response cannot arrive later. A closed connection is reopened once, immediately: if that is refused,
the peer's process is dead; if it is neither refused nor ready in time, it is given up.

The host transports the bytes: sockets in the server, a virtual network in the simulator.
"""

from __future__ import annotations

import struct

from kraftlog.effects import (
    ConnectionRefused,
    RequestFailed,
    ResponseReceived,
    VersionUnsupported,
    printable,
)
from kraftlog.errors import AuthenticationError, ProtocolError, UnsupportedVersionError
from kraftlog.replication.replica_fetchers import CHANNEL_PREFIX as REPLICATION
from kraftlog.runner.receive_buffer import FrameLengthError, ReceiveBuffer
from kraftlog.types import NEVER_MS
from kraftlog.value import TYPE_CHECKING
from kraftlog.version import VERSION
from kraftlog.wire.apis import APIS, OWN_CLIENT, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.primitives import Malformed, skip_tags

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.effects import SendRequest
    from kraftlog.runner.peer_login import PeerLogin, PeerLogins
    from kraftlog.types import Buffer, Now
    from kraftlog.wire.schema import Message

CLIENT_ID = "kraftlog"
#: The correlation id and version of the ApiVersions request. Version 3 is the first with the
#: client's name: a peer lists kraftlog's own APIs only to a node of kraftlog.
API_VERSIONS_CORRELATION, API_VERSIONS_VERSION = 0, 3

#: Why a request has failed, as the operator log says it.
CLOSED = "the connection was closed"
REFUSED = "Connection refused"
LOGIN_REFUSED = "it refuses this node's login: "
NO_RESPONSE = "it accepts connections and does not respond"
NO_CONNECTION = "no connection in time"
ABORTED = "another request took its place"

#: How long a peer may take to accept a connection and respond to ApiVersions, whether or not a
#: request waits; the default of Kafka's `socket.connection.setup.timeout.ms`. A machine that loses
#: power with that request unread never ends the connection, and all later requests would wait.
SETUP_TIMEOUT_MS = 10_000

#: How often a connection to a peer that accepts and closes it is reopened immediately.
MAX_PROBES = 5

_CORRELATION = struct.Struct(">i")


class PeerChannel:
    """One connection, and the requests in flight on it."""

    def __init__(self, name: str, peer: int, address: tuple[str, int]) -> None:
        self.name = name
        self.peer = peer
        self.address = address
        self.is_connected = False
        #: When a connection that is being opened must be ready for requests.
        self.setup_due_ms = NEVER_MS
        #: Whether a connection has ended, at `ended_ms`, and none has been opened since.
        self.has_ended = False
        self.ended_ms = 0
        #: How often the connection was reopened since the peer last sent anything.
        self.probes = 0
        self.out = bytearray()
        self.received = ReceiveBuffer()
        #: Whether responses are views of the receive buffer: one request is in flight at a time,
        #: and the records of its response are written before the next request is sent.
        self.lends_frames = name.startswith(REPLICATION)
        #: The requests without a response and their deadlines, by correlation id.
        self.in_flight: dict[int, tuple[SendRequest, int]] = {}
        #: No request times out before this.
        self.due_ms = 0
        #: The versions that the peer supports of each API, (first, last); None before its response.
        self.supported_versions: dict[int, tuple[int, int]] | None = None
        #: The login in progress, and the versions that it keeps back until it is complete.
        self.login: PeerLogin | None = None
        self.offered_versions: dict[int, tuple[int, int]] = {}
        self.login_version = 0
        #: When another login is needed: a new connection takes the place of this one.
        self.login_ends_ms = NEVER_MS
        #: The version of each sent request; the others wait for `supported_versions`.
        self.sent_versions: dict[int, int] = {}

    @property
    def is_open(self) -> bool:
        """Whether a connection exists or is being opened."""
        raise NotImplementedError

    def forget_address(self) -> None:
        """Look up the peer's address again."""


class PeerChannels:
    """All channels of a node; a host implements `_connect`, `_flush` and `_close`."""

    channel_type: type[PeerChannel] = PeerChannel

    def __init__(self, notify: Callable[[Any, Now], None]) -> None:
        self._notify = notify
        self._channels: dict[tuple[str, int], PeerChannel] = {}
        self._correlation = 0
        #: How this node logs in at others; None: nowhere.
        self.logins: PeerLogins | None = None
        #: Totals of all channels since the start, for metrics.
        self.requests = self.responses = self.bytes_in = self.bytes_out = 0
        #: The requests of this turn; they are sent, and their timeouts start, at its end.
        self._new: list[SendRequest] = []
        #: The earliest time limit of the connections that this turn has begun to open.
        self._new_setup_due_ms = NEVER_MS

    # The host's part -----------------------------------------------------------------------------

    def _connect(self, channel: Any, now: Now) -> None:
        """Start to connect; `connected` or `connect_failed` is called later."""
        raise NotImplementedError

    def _flush(self, channel: Any, now: Now) -> None:
        """Send what is in `channel.out`, once connected."""
        raise NotImplementedError

    def _close(self, channel: Any) -> None:
        """Close the connection, if there is one."""
        raise NotImplementedError

    # Turns ---------------------------------------------------------------------------------------

    def send(self, effect: SendRequest) -> None:
        self._new.append(effect)

    def deadline(self) -> int | None:
        """The earliest time at which a request, or the opening of a connection, may time out."""
        channels = self._channels.values()
        due_ms = [channel.due_ms for channel in channels if channel.in_flight]
        due_ms += [it.setup_due_ms for it in channels if it.setup_due_ms != NEVER_MS]
        return min(due_ms, default=None)

    def flush(self, now: Now) -> int:
        """Send the requests of a turn, at its end.

        Return when the first of them, or of the connections that the turn opens, times out.
        """
        if not self._new:
            return self._take_new_setup_due_ms()
        requests, self._new = self._new, []
        channels: dict[PeerChannel, None] = {}
        for effect in requests:
            channel = self._channel(effect, now)
            if channel.login_ends_ms <= now.monotonic_ms and not channel.in_flight:
                self._disconnect(channel)
            if effect.needs_new_connection and channel.in_flight:
                self.lost(channel, now, probe=False, why=ABORTED)
            self._enqueue(channel, effect, now)
            channels[channel] = None
        for channel in channels:
            if channel.is_open:
                self._flush(channel, now)
            else:
                self._open(channel, now)
        due_ms = min([now.monotonic_ms + effect.timeout_ms for effect in requests])
        return min(due_ms, self._take_new_setup_due_ms())

    def _take_new_setup_due_ms(self) -> int:
        due_ms, self._new_setup_due_ms = self._new_setup_due_ms, NEVER_MS
        return due_ms

    def expire(self, now: Now) -> None:
        """Close the connections with timed out requests, and those that did not open in time."""
        for channel in self._channels.values():
            if channel.in_flight and channel.due_ms <= now.monotonic_ms:
                channel.due_ms = min([due_ms for _, due_ms in channel.in_flight.values()])
            is_overdue = channel.in_flight and channel.due_ms <= now.monotonic_ms
            if is_overdue or channel.setup_due_ms <= now.monotonic_ms:
                channel.forget_address()
                self.lost(channel, now, probe=False, why=_timeout_reason(channel))

    # Requests ------------------------------------------------------------------------------------

    def _channel(self, effect: SendRequest, now: Now) -> PeerChannel:
        key = effect.channel, effect.peer
        channel = self._channels.get(key)
        address = effect.host, effect.port
        if channel is None:
            channel = self._channels[key] = self.channel_type(effect.channel, effect.peer, address)
        elif channel.address != address:
            self.lost(channel, now, probe=False, why=ABORTED)
            channel.address, channel.has_ended = address, False
            channel.forget_address()
        return channel

    def _enqueue(self, channel: PeerChannel, effect: SendRequest, now: Now) -> None:
        self._correlation = (self._correlation & 0x3FFFFFFF) + 1
        due_ms = now.monotonic_ms + effect.timeout_ms
        channel.due_ms = min(channel.due_ms, due_ms) if channel.in_flight else due_ms
        channel.in_flight[self._correlation] = effect, due_ms
        if channel.supported_versions is not None:
            self._send_in_supported_version(channel, self._correlation, effect, now)

    def _send_in_supported_version(
        self, channel: PeerChannel, correlation: int, effect: SendRequest, now: Now
    ) -> None:
        """Send in the newest version that both sides support, or report VersionUnsupported."""
        assert channel.supported_versions is not None
        first, last = channel.supported_versions.get(effect.api_key, (0, -1))
        version = min(effect.version, last)
        try:
            if version < max(first, APIS[effect.api_key].first):
                raise UnsupportedVersionError(f"{APIS[effect.api_key].name} {version}")
            self._put(channel, effect.api_key, version, correlation, effect.request)
        except UnsupportedVersionError:
            del channel.in_flight[correlation]
            self._notify(VersionUnsupported(channel.name, channel.peer, effect.number), now)
            return
        channel.sent_versions[correlation] = version

    def _put(
        self, channel: PeerChannel, api_key: int, version: int, correlation: int, request: Message
    ) -> None:
        pieces = request_frame(APIS[api_key], version, correlation, CLIENT_ID, request)
        data = b"".join(pieces)
        channel.out += data
        self.requests += 1
        self.bytes_out += len(data)

    # Connections that begin ----------------------------------------------------------------------

    def _open(self, channel: PeerChannel, now: Now) -> None:
        channel.setup_due_ms = now.monotonic_ms + SETUP_TIMEOUT_MS
        self._new_setup_due_ms = min(self._new_setup_due_ms, channel.setup_due_ms)
        self._connect(channel, now)

    def connected(self, channel: PeerChannel, now: Now) -> None:
        channel.is_connected, channel.has_ended = True, False
        request_type: Any = APIS[ApiKey.API_VERSIONS].request()
        request = request_type(client_software_name=OWN_CLIENT, client_software_version=VERSION)
        self._put(
            channel, ApiKey.API_VERSIONS, API_VERSIONS_VERSION, API_VERSIONS_CORRELATION, request
        )
        self._flush(channel, now)

    # Responses -----------------------------------------------------------------------------------

    def receive(self, channel: PeerChannel, data: Buffer, now: Now) -> None:
        """Copy bytes into the receive buffer and handle them; `b""` if the peer has closed."""
        rest = memoryview(data)
        try:
            while rest:
                room = channel.received.room()
                count = min(len(room), len(rest))
                room[:count] = rest[:count]
                channel.received.received(count)
                rest = rest[count:]
        except FrameLengthError:
            self.lost(channel, now, probe=False)
            return
        self.received(channel, len(data), now)

    def received(self, channel: PeerChannel, count: int, now: Now) -> None:
        """Handle `count` new bytes in the receive buffer; 0 if the peer has closed."""
        if not count:
            self.lost(channel, now)
            return
        self.bytes_in += count
        received = channel.received
        try:
            while (frame := received.next_frame()) is not None:
                if not self._handle_frame(channel, frame, now):
                    self.lost(channel, now, probe=False)
                    return
                self.responses += 1
                if channel.received is not received:
                    return  # the channel was reset
        except FrameLengthError:
            self.lost(channel, now, probe=False)

    def _handle_frame(self, channel: PeerChannel, frame: memoryview, now: Now) -> bool:
        """Handle a frame; return whether it is a response to a request in flight."""
        (correlation,) = _CORRELATION.unpack_from(frame)
        if channel.supported_versions is None:
            first = self._receive_versions if channel.login is None else self._receive_login
            return first(channel, correlation, bytes(frame[_CORRELATION.size :]), now)
        if not channel.lends_frames:
            return self._receive_response(
                channel, correlation, bytes(frame[_CORRELATION.size :]), now
            )
        channel.received.lend()
        return self._receive_response(channel, correlation, frame[_CORRELATION.size :], now)

    def _receive_versions(
        self, channel: PeerChannel, correlation: int, frame: bytes, now: Now
    ) -> bool:
        """Handle the response to ApiVersions, if it is one, and send the requests that wait."""
        if correlation != API_VERSIONS_CORRELATION:
            return False
        try:
            response: Any = decode(
                APIS[ApiKey.API_VERSIONS].response(), API_VERSIONS_VERSION, frame
            )
        except ProtocolError:
            return False
        if response.error_code or not response.api_keys:
            return False
        channel.offered_versions = {
            api.api_key: (api.min_version, api.max_version) for api in response.api_keys
        }
        channel.login = None if self.logins is None else self.logins.begin(channel.name)
        if channel.login is None:
            self._send_waiting(channel, now)
        else:
            self._put_login(channel, channel.login.first(), now)
        return True

    def _put_login(self, channel: PeerChannel, request: Message, now: Now) -> None:
        assert channel.login is not None
        key = channel.login.api_key
        version = min(APIS[key].last, channel.offered_versions.get(key, (0, 1))[1])
        if version < APIS[key].first:
            self.lost(channel, now, probe=False, why=f"{LOGIN_REFUSED}it does not serve any")
            return
        self._put(channel, key, version, API_VERSIONS_CORRELATION, request)
        channel.login_version = version
        self._flush(channel, now)

    def _receive_login(
        self, channel: PeerChannel, correlation: int, frame: bytes, now: Now
    ) -> bool:
        """Handle the response to a request of the login, and send the next one, if there is one."""
        login = channel.login
        assert login is not None
        api = APIS[login.api_key]
        start = api.response_header_version(channel.login_version)
        if correlation != API_VERSIONS_CORRELATION or frame[:start] != bytes(start):
            return False
        try:
            response: Any = decode(api.response(), channel.login_version, frame, start)
            request = login.next(response)
        except ProtocolError:
            return False
        except AuthenticationError as error:
            self.lost(channel, now, probe=False, why=LOGIN_REFUSED + printable(str(error)))
            return True
        if request is not None:
            self._put_login(channel, request, now)
            return True
        if login.holds_ms > 0:
            channel.login_ends_ms = now.monotonic_ms + login.holds_ms
        channel.login = None
        self._send_waiting(channel, now)
        return True

    def _send_waiting(self, channel: PeerChannel, now: Now) -> None:
        """Send the requests that have waited until the peer serves them."""
        channel.setup_due_ms, channel.probes = NEVER_MS, 0
        channel.supported_versions = channel.offered_versions
        for waiting, (effect, _) in list(channel.in_flight.items()):
            self._send_in_supported_version(channel, waiting, effect, now)
        self._flush(channel, now)

    def _receive_response(
        self, channel: PeerChannel, correlation: int, frame: Buffer, now: Now
    ) -> bool:
        request = channel.in_flight.get(correlation)
        response = self._read(channel, correlation, frame)
        if response is None or request is None:
            return False
        if request[0].closes and not channel.in_flight:
            self._disconnect(channel)
        self._notify(response, now)
        return True

    @staticmethod
    def _read(channel: PeerChannel, correlation: int, frame: Buffer) -> ResponseReceived | None:
        """Decode a response; None if no request matches it, or it is malformed."""
        version = channel.sent_versions.get(correlation)
        if version is None:
            return None
        effect, _ = channel.in_flight[correlation]
        api = APIS[effect.api_key]
        try:
            start = 0
            if api.response_header_version(version) == 1:
                start = skip_tags(frame, 1, len(frame), frame[0]) if frame[0] else 1
            response = decode(api.response(), version, frame, start)
        except (ProtocolError, IndexError, Malformed):
            return None
        del channel.in_flight[correlation], channel.sent_versions[correlation]
        return ResponseReceived(channel.name, channel.peer, effect.number, response)

    # Connections that end ------------------------------------------------------------------------

    def connect_failed(
        self,
        channel: PeerChannel,
        now: Now,
        *,
        refused: bool = False,
        reset: bool = False,
        why: str = REFUSED,
    ) -> None:
        """No connection was opened; only a refusal proves that no process listens there."""
        if reset and channel.has_ended:
            # Opened and closed since the last poll, as by a process that is about to end.
            channel.is_connected = True
            self.lost(channel, now)
            return
        is_down = refused and channel.has_ended
        channel.has_ended = False
        channel.forget_address()
        self.lost(channel, now, probe=False, why=why)
        if is_down:
            self._notify(ConnectionRefused(channel.name, channel.peer, channel.ended_ms), now)

    def lost(
        self, channel: PeerChannel, now: Now, *, probe: bool = True, why: str = CLOSED
    ) -> None:
        """The connection is over, and its requests fail.

        `probe`: reconnect immediately, to learn whether the peer's process is dead.
        """
        was_connected = channel.is_connected
        self._disconnect(channel)
        failed, channel.in_flight = channel.in_flight, {}
        if was_connected:
            channel.has_ended, channel.ended_ms = True, now.monotonic_ms
        if was_connected and probe and channel.probes < MAX_PROBES:
            channel.probes += 1
            self._open(channel, now)
        for effect, _ in failed.values():
            report = RequestFailed(
                channel.name, channel.peer, effect.number, why, is_aborted=why == ABORTED
            )
            self._notify(report, now)

    def _disconnect(self, channel: PeerChannel) -> None:
        self._close(channel)
        channel.is_connected, channel.setup_due_ms = False, NEVER_MS
        channel.out.clear()
        channel.received = ReceiveBuffer()
        channel.sent_versions.clear()
        channel.supported_versions = channel.login = None
        channel.login_ends_ms = NEVER_MS


def _timeout_reason(channel: PeerChannel) -> str:
    """Why a request to a peer got no response in time."""
    return NO_RESPONSE if channel.is_connected else NO_CONNECTION
