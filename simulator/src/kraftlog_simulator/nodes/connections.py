"""Both ends of a virtual connection: one node's requests, and another's responses.

Bytes arrive in order or not at all. The invariants also get the messages as objects.
"""

from __future__ import annotations

import struct

from kraftlog.errors import UnansweredError
from kraftlog.node.pending_response import PendingResponse
from kraftlog.node.quorum.requests import VERSIONS, request_from_wire
from kraftlog.node.quorum.responses import response_from_wire
from kraftlog.raft.messages import SnapshotFetch
from kraftlog.runner.peers import PeerChannel, PeerChannels
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import BROKER, CONTROLLER
from kraftlog_simulator.virtual_connection import VirtualConnection

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.effects import SendRequest
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message
    from kraftlog_simulator.nodes.network import Connection
    from kraftlog_simulator.nodes.node_process import NodeProcess

#: The ports of the two listeners of a node. Any port but the broker's is a controller's: an update
#: of a voter may give it a new port.
CONTROLLER_PORT, BROKER_PORT = 9093, 9092

_INT32 = struct.Struct(">i")
#: The position of the correlation id in a request, after length, API key and version.
_CORRELATION_POSITION = 8


class VirtualChannel(PeerChannel):
    """A channel, and the connection that carries it."""

    def __init__(self, name: str, peer: int, address: tuple[str, int]) -> None:
        super().__init__(name, peer, address)
        self.connection: Connection | None = None

    @property
    def is_open(self) -> bool:
        return self.connection is not None


class VirtualPeers(PeerChannels):
    """All channels of one incarnation of a node."""

    channel_type = VirtualChannel

    def __init__(self, replica: NodeProcess, notify: Callable[[Any, Now], None]) -> None:
        super().__init__(notify)
        self._replica = replica

    def send(self, effect: SendRequest) -> None:
        replica = self._replica
        replica.world.requested(effect)
        target = replica.world.replica_at(effect.host)
        if effect.api_key in VERSIONS and effect.port != BROKER_PORT and target is not None:
            body = request_from_wire(effect.api_key, effect.request)
            replica.world.sent(replica, target, body)
        super().send(effect)

    def _put(
        self, channel: PeerChannel, api_key: int, version: int, correlation: int, request: Message
    ) -> None:
        assert isinstance(channel, VirtualChannel)
        assert channel.connection is not None
        if api_key in VERSIONS and channel.address[1] != BROKER_PORT:
            channel.connection.unanswered[correlation] = request_from_wire(api_key, request)
        super()._put(channel, api_key, version, correlation, request)

    def _connect(self, channel: VirtualChannel, now: Now) -> None:  # noqa: ARG002 - one interface for all hosts
        channel.connection = self._replica.world.network.connect(self._replica, channel)

    def _flush(self, channel: VirtualChannel, now: Now) -> None:  # noqa: ARG002 - one interface for all hosts
        assert channel.connection is not None
        if channel.is_connected and channel.out:
            channel.connection.send_request(bytes(channel.out))
            channel.out.clear()

    def _close(self, channel: VirtualChannel) -> None:
        if channel.connection is not None:
            channel.connection.close_by_client()
            channel.connection = None


class WatchedResponse(PendingResponse):
    """A pending response; the invariants also see it if `request` is a request of the quorum."""

    __slots__ = ("request",)

    def __init__(self, connection: Any, request: Any) -> None:
        super().__init__(connection)
        self.request = request

    def respond(self, response: Any) -> None:
        if self.request is not None:
            self.connection.watch(self, response)
        super().respond(response)


class ServerEnd(VirtualConnection):
    """The receiving node's end of a connection."""

    def __init__(self, replica: NodeProcess, connection: Connection) -> None:
        is_of_broker = connection.channel.address[1] == BROKER_PORT
        super().__init__(BROKER if is_of_broker else CONTROLLER)
        self.replica = replica
        self.connection = connection
        #: The requests of this turn, for the invariants.
        self.received_requests: list[Any] = []

    def ready(self, pending: Any) -> None:
        super().ready(pending)
        self.replica.ready_connections[self] = None

    def watch(self, pending: WatchedResponse, response: Any) -> None:
        request = pending.request
        if isinstance(request, SnapshotFetch):
            request = request.replace(epoch=0)  # then a response without an epoch gets 0
        body = response_from_wire(response, request)
        self.connection.network.watch_response(self.replica, self.connection, body, response)

    def receive(self, data: bytes, now: Now) -> None:
        """Pass whole requests to the node, one after the other."""
        pos = 0
        while pos < len(data):
            end = pos + 4 + _INT32.unpack_from(data, pos)[0]
            self.held.append(data[pos:end])
            pos = end
        self.serve_held(now)

    def serve_held(self, now: Now) -> None:
        """Pass the requests that were held back while the node processed an earlier one."""
        while self.held and not self.mutes:
            self._serve(self.held.popleft(), now)
        if self.held:
            self.replica.held_connections[self] = None

    def _serve(self, frame: bytes, now: Now) -> None:
        number = _INT32.unpack_from(frame, _CORRELATION_POSITION)[0]
        body = self.connection.unanswered.pop(number, None)
        buffer: bytes | bytearray = frame
        if body is not None:
            self.received_requests.append(body)
        elif self.serves == BROKER:
            buffer = bytearray(frame)  # batches are stamped in place
            templates = self.request_templates
            if templates is not None and templates.serve(
                buffer, memoryview(buffer), 4, len(buffer), now
            ):
                return
        pending = WatchedResponse(self, body)
        self.responses.append(pending)
        self.replica.node.frame(pending, buffer, 4, len(buffer), now)

    def send_finished(self) -> None:
        """Send the finished responses; a request that cannot get a response ends the connection."""
        try:
            data = self.take()
        except OSError as error:  # of a failed disk, from which it was to be sent
            data, self.failure = b"", UnansweredError(str(error))
        if data:
            self.connection.send_responses(data)
        if self.failure is not None:
            self.close()
            self.connection.server = None
            self.connection.reset_client()

    def close(self) -> None:
        for pending in self.responses:
            if isinstance(pending, PendingResponse):
                pending.abandon()
        self.responses.clear()
        self.held.clear()
        self.request_templates = None


class ClientEnd(VirtualConnection):
    """A client with a reliable connection: sends one request and gets the response's bytes."""

    def __init__(self, replica: NodeProcess, on_response: Callable[[bytes], None]) -> None:
        super().__init__(CONTROLLER)
        self.replica = replica
        self.on_response = on_response
        self.is_open = True

    def ready(self, pending: Any) -> None:
        super().ready(pending)
        self.replica.ready_connections[self] = None

    def receive(self, data: bytes, now: Now) -> None:
        pending = PendingResponse(self)
        self.responses.append(pending)
        self.replica.node.frame(pending, data, 4, len(data), now)

    def send_finished(self) -> None:
        data = self.take()
        if data and self.is_open:
            self.is_open = False
            self.on_response(data)

    def close(self) -> None:
        self.is_open = False
        for pending in self.responses:
            if isinstance(pending, PendingResponse):
                pending.abandon()
        self.responses.clear()
