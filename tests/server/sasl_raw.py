"""A connection on which a test logs in as it likes."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from kraftlog.errors import ProtocolError
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.codec import decode
from kraftlog.wire.frames import request_frame
from kraftlog.wire.messages.metadata import MetadataRequest
from kraftlog.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kraftlog.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.server.sasl_node import PASSWORD, USER
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message


class Raw:
    """A connection that says what a test wants."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), LIMIT_S)
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def send(self, api_key: int, version: int, request: Message) -> None:
        self.socket.sendall(b"".join(request_frame(APIS[api_key], version, 7, "c", request)))

    def receive(self, api_key: int, version: int) -> Any:
        size = int.from_bytes(self.file.read(4), "big")
        api = APIS[api_key]
        body = self.file.read(size)
        return decode(api.response(), version, body, 4 + api.response_header_version(version))

    def call(self, api_key: int, version: int, request: Message) -> Any:
        self.send(api_key, version, request)
        return self.receive(api_key, version)

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        request = SaslHandshakeRequest(mechanism=mechanism)
        return self.call(ApiKey.SASL_HANDSHAKE, version, request)

    def authenticate(self, user: str = USER, password: str = PASSWORD, version: int = 2) -> Any:
        token = f"\0{user}\0{password}".encode()
        request = SaslAuthenticateRequest(auth_bytes=token)
        return self.call(ApiKey.SASL_AUTHENTICATE, version, request)

    def metadata(self) -> Any:
        return self.call(ApiKey.METADATA, 9, MetadataRequest(topics=None))

    @property
    def serves(self) -> bool:
        """Whether the node still answers a request."""
        try:
            return bool(self.metadata().brokers)
        except (ConnectionError, ProtocolError):
            return False

    @property
    def is_closed(self) -> bool:
        """Whether the node closes the connection and sends nothing more."""
        try:
            return self.file.read(1) == b""
        except ConnectionResetError:
            return True
