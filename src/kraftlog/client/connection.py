"""A connection to a broker; responses arrive in the order of the requests."""

from __future__ import annotations

import socket
import struct
from collections import deque

from kraftlog.client.deadline import Deadline
from kraftlog.client.versions import api_of, check_consistency, chosen_version
from kraftlog.errors import (
    AuthenticationError,
    ErrorCode,
    ProtocolError,
    RefusedError,
    UnreachableError,
    error_name,
)
from kraftlog.sasl.initiate import LOGIN_SHARE
from kraftlog.value import TYPE_CHECKING
from kraftlog.version import VERSION
from kraftlog.wire.apis import APIS, OWN_CLIENT, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kraftlog.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kraftlog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from kraftlog.client.security import Security
    from kraftlog.wire.apis import Api
    from kraftlog.wire.schema import Message

#: The largest accepted response; a larger length means that the peer is not a broker.
MAX_FRAME = 512 << 20
#: The socket timeout after the deadline; 0 would make the socket non-blocking.
_MIN_TIMEOUT_S = 0.001


class Connection:
    """A socket with the API versions of the broker and the pending requests."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        deadline: Deadline,
        *,
        security: Security | None = None,
        cluster_id: str | None = None,
        node_id: int = -1,
    ) -> None:
        """Connect; a broker that is not this node of this cluster, if both are given, refuses."""
        self.address = f"{host}:{port}"
        self.client_id = client_id
        self._cluster_id, self._node_id = cluster_id, node_id
        #: API, version and correlation id of each pending request.
        self._pending: deque[tuple[Api, int, int]] = deque()
        self._correlation_id = 0
        #: The first and last version of each API that the broker supports, by API key.
        self.served: dict[int, tuple[int, int]] = {}
        try:
            self._socket = socket.create_connection(
                (host, port), deadline.left_s() or _MIN_TIMEOUT_S
            )
        except OSError as error:
            raise UnreachableError(f"{self.address}: {error.strerror or error}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        #: When the login ends, or is about to; None: never.
        self._login_ends: Deadline | None = None
        try:
            if security is not None and security.uses_tls:
                self._socket = security.handshake(self._socket, host, self.address)
            api_versions = self._first_response(security, deadline)
            self.served = {
                api.api_key: (api.min_version, api.max_version) for api in api_versions.api_keys
            }
            if security is not None and security.mechanism:
                self._log_in(security, deadline)
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    @property
    def login_is_ending(self) -> bool:
        """Whether a new connection should soon take its place, as the broker will close it."""
        return self._login_ends is not None and self._login_ends.is_over

    @property
    def is_usable(self) -> bool:
        """Whether it is open, and still has to receive responses or is logged in for longer."""
        return self.fileno() >= 0 and (bool(self._pending) or not self.login_is_ending)

    @property
    def has_received(self) -> bool:
        """Whether data has arrived that the socket no longer reports, as it is decrypted."""
        pending = getattr(self._socket, "pending", None)
        return pending is not None and pending() > 0

    def call(self, request: Message, deadline: Deadline, version: int | None = None) -> Message:
        """Send a request and wait for the response; no other may be pending."""
        try:
            self.send(request, deadline, version)
            return self.receive(deadline)
        except UnreachableError as error:
            error.was_sent = True
            raise

    def send(
        self,
        request: Message,
        deadline: Deadline,
        version: int | None = None,
        *,
        expects_response: bool = True,
    ) -> None:
        api = api_of(request)
        if version is None:
            version = chosen_version(api, self.served, self.address)
        check_consistency(request, self.served, self.address)
        self._correlation_id += 1
        frame = request_frame(api, version, self._correlation_id, self.client_id, request)
        if expects_response:
            self._pending.append((api, version, self._correlation_id))
        try:
            self._socket.settimeout(deadline.left_s() or _MIN_TIMEOUT_S)
            self._socket.sendall(b"".join(frame))
        except OSError as error:
            raise self._lost(error) from None

    def receive(self, deadline: Deadline) -> Message:
        """Receive the response to the oldest pending request."""
        api, version, correlation_id = self._pending.popleft()
        body = self._receive_frame(correlation_id, deadline)
        # After the correlation id, header version 1 has an empty tag buffer of one byte.
        start = 4 + api.response_header_version(version)
        return self._decoded(api, version, body, start)

    def _decoded(self, api: Api, version: int, body: bytearray, start: int) -> Message:
        try:
            return decode(api.response(), version, body, start)
        except ProtocolError as error:
            self.close()
            raise UnreachableError(
                f"{self.address} sent an invalid {api.name} response: {error}"
            ) from None

    def _first_response(self, security: Security | None, deadline: Deadline) -> ApiVersionsResponse:
        try:
            return self._fetch_api_versions(deadline)
        except UnreachableError as error:
            if security is None or not security.uses_tls:
                raise UnreachableError(
                    f"{error}; a listener with TLS needs security.protocol"
                ) from None
            raise

    def _fetch_api_versions(self, deadline: Deadline) -> ApiVersionsResponse:
        """Fetch the API versions; retry with an older version if a broker does not support ours."""
        api = APIS[ApiKey.API_VERSIONS]
        version = api.last
        request = ApiVersionsRequest(
            client_software_name=OWN_CLIENT, client_software_version=VERSION
        )
        if self._cluster_id is not None and self._node_id >= 0:
            request.cluster_id, request.node_id = self._cluster_id, self._node_id
        while True:
            self.send(request, deadline, version)
            _, _, correlation_id = self._pending.popleft()
            body = self._receive_frame(correlation_id, deadline)
            code = int.from_bytes(body[4:6], "big", signed=True)
            response_version = 0 if code == ErrorCode.UNSUPPORTED_VERSION else version
            response = self._decoded(api, response_version, body, 4)
            assert isinstance(response, ApiVersionsResponse)
            if code == ErrorCode.NONE:
                return response
            if code != ErrorCode.UNSUPPORTED_VERSION or version == 0:
                is_misrouted = code == ErrorCode.REBOOTSTRAP_REQUIRED
                expected = f"it is not node {self._node_id} of cluster {self._cluster_id}"
                raise RefusedError(
                    code,
                    api=api.name,
                    broker=self.address,
                    message=expected if is_misrouted else None,
                )
            max_versions = [
                each.max_version for each in response.api_keys if each.api_key == api.key
            ]
            version = min(max_versions[0], version - 1) if max_versions else 0

    def _log_in(self, security: Security, deadline: Deadline) -> None:
        """Choose the mechanism and go through its exchange."""
        mechanism = security.mechanism
        handshake = self.call(SaslHandshakeRequest(mechanism=mechanism), deadline)
        assert isinstance(handshake, SaslHandshakeResponse)
        if handshake.error_code:
            offered = ", ".join(handshake.mechanisms) or "none"
            raise AuthenticationError(
                f"{self.address} does not accept sasl.mechanism={mechanism}; it has {offered}"
            )
        exchange = security.exchange()
        token = next(exchange)
        while True:
            response = self.call(SaslAuthenticateRequest(auth_bytes=token), deadline)
            assert isinstance(response, SaslAuthenticateResponse)
            if response.error_code:
                why = response.error_message or error_name(response.error_code)
                raise AuthenticationError(f"{self.address} refuses the login: {why}")
            try:
                token = exchange.send(bytes(response.auth_bytes))
            except StopIteration:
                break
            except AuthenticationError as error:
                raise AuthenticationError(f"{self.address}: {error}") from None
        if response.session_lifetime_ms > 0:
            self._login_ends = Deadline(response.session_lifetime_ms * LOGIN_SHARE / 1000)

    def _receive_frame(self, correlation_id: int, deadline: Deadline) -> bytearray:
        (size,) = struct.unpack(">i", self._read(4, deadline))
        if not 4 <= size <= MAX_FRAME:
            self.close()
            raise UnreachableError(f"{self.address} does not speak Kafka's protocol")
        body = self._read(size, deadline)
        (received,) = struct.unpack_from(">i", body)
        if received != correlation_id:
            self.close()
            raise UnreachableError(
                f"{self.address} sent correlation id {received}; expected {correlation_id}"
            )
        return body

    def _read(self, size: int, deadline: Deadline) -> bytearray:
        buffer = bytearray(size)
        view = memoryview(buffer)
        filled = 0
        while filled < size:
            try:
                self._socket.settimeout(deadline.left_s() or _MIN_TIMEOUT_S)
                count = self._socket.recv_into(view[filled:])
            except OSError as error:
                raise self._lost(error) from None
            if not count:
                raise self._lost(ConnectionError("the broker closed the connection"))
            filled += count
        return buffer

    def _lost(self, error: OSError) -> UnreachableError:
        self.close()
        reason = "request timed out" if isinstance(error, TimeoutError) else error.strerror or error
        return UnreachableError(f"{self.address}: {reason}")


def usable(connection: Connection | None) -> Connection | None:
    """The connection if there is one that is usable; another one is closed."""
    if connection is None or connection.is_usable:
        return connection
    connection.close()
    return None
