"""A network of connections that carry bytes: delayed, cut, refused, or reset.

As with TCP, bytes arrive in order, once, and complete; a lost segment is retransmitted or ends the
connection. So nothing is duplicated, and only connections overtake each other.
"""

from __future__ import annotations

from collections import deque

from kraftlog.raft.messages import FetchResult, SnapshotChunk, VoteResult
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.faults.corruption import damaged
from kraftlog_simulator.network import Network
from kraftlog_simulator.nodes.connections import ServerEnd, VirtualChannel

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.runner.peers import PeerChannels
    from kraftlog_simulator.nodes.node_process import NodeProcess, WorldOfNodes
    from kraftlog_simulator.process import Replica

    Pieces = deque[tuple[Callable[..., None], tuple[Any, ...]]]

#: How long until a lost TCP segment is retransmitted.
RETRANSMIT_MS = 200
#: How long until a connection to a machine without power is attempted again.
RECONNECT_MS = 1000
#: How long a process falsely refuses new connections.
FALSELY_REFUSED_MS = 50


class Connection:
    """One connection, from the node that sends requests to the node that responds."""

    def __init__(
        self,
        network: ByteNetwork,
        source: NodeProcess,
        target: NodeProcess,
        channel: VirtualChannel,
    ) -> None:
        self.network = network
        self.source = source
        self.source_incarnation = source.incarnation
        self.target = target
        self.target_incarnation = -1
        self.channel = channel
        self.server: ServerEnd | None = None
        #: For the invariants: the requests in flight, by correlation id.
        self.unanswered: dict[int, Any] = {}
        #: What is in flight to the server and back, as calls in the order of sending, and the times
        #: when the last bytes to each end arrive.
        self.requests: Pieces = deque()
        self.responses: Pieces = deque()
        self.last_request_at = self.last_response_at = 0
        self.is_over = False

    @property
    def is_held_by_client(self) -> bool:
        """Whether the client still has the connection open."""
        is_running = self.source.incarnation == self.source_incarnation
        return is_running and not self.is_over and self.channel.connection is self

    @property
    def is_held_by_server(self) -> bool:
        return self.server is not None and self.target.incarnation == self.target_incarnation

    @property
    def peers(self) -> PeerChannels:
        return self.source.peers

    def send_request(self, data: bytes) -> None:
        self.last_request_at = self.network.carry(
            self, True, self.last_request_at, self._request, data
        )

    def send_responses(self, data: bytes) -> None:
        late_ms = self.network.late_ms()
        if late_ms:
            self.last_response_at = max(self.last_response_at, self.network.world.time + late_ms)
        self.last_response_at = self.network.carry(
            self, False, self.last_response_at, self._response, data
        )

    def close_by_client(self) -> None:
        """The client closes the connection and ignores the bytes in flight."""
        self.is_over = True
        self.network.carry(self, True, self.last_request_at, self._closed_by_client)

    # Arriving ------------------------------------------------------------------------------------

    def _request(self, data: bytes) -> None:
        if not self.is_held_by_server:
            world = self.network.world
            if self.target.machine_up:
                self.reset_client()
            elif not self.is_over:  # retransmit until the machine has power
                world.schedule(world.time + RETRANSMIT_MS, self._request, data)
            return
        server, incarnation = self.server, self.target.incarnation
        assert server is not None
        self.target.turn("is asked", server.receive, data)
        received, server.received_requests = server.received_requests, []
        if self.target.incarnation == incarnation:
            for body in received:
                self.network.world.received(self.target, self.source, body)

    def _response(self, data: bytes) -> None:
        if self.is_held_by_client:
            self.source.turn("is answered", self.peers.receive, self.channel, data)

    def _closed_by_client(self) -> None:
        if self.is_held_by_server and self.server is not None:
            self.server.close()
        self.server = None

    def reset_client(self) -> None:
        """The server does not know the connection: send a reset."""
        self.network.carry(self, False, 0, self.break_client)

    def break_client(self) -> None:
        if self.is_held_by_client:
            self.source.turn("is reset", self.peers.receive, self.channel, b"")

    def reset(self) -> None:
        """Break the connection and notify both ends at once."""
        if self.is_held_by_server and self.server is not None:
            self.server.close()
        self.server = None
        if self.source.paused:
            self.source.waiting.append((self.break_client, ()))
        else:
            self.break_client()


class ByteNetwork(Network):
    """Carries the bytes of all connections; rates are per thousand segments."""

    world: WorldOfNodes

    def __init__(self, world: WorldOfNodes) -> None:
        super().__init__(world)
        self.wire = None
        self._connections: list[Connection] = []
        #: Until when a running process refuses another's connections, by (source, target).
        self._refuses_until: dict[tuple[int, int], int] = {}

    # Connecting ----------------------------------------------------------------------------------

    def connect(self, source: NodeProcess, channel: VirtualChannel) -> Connection | None:
        target = self.world.replica_at(channel.address[0])
        assert target is not None, f"no node listens at {channel.address}"
        connection = Connection(self, source, target, channel)
        self._connections.append(connection)
        self.carry(connection, True, 0, self._connect_to, connection)
        return connection

    def _connect_to(self, connection: Connection) -> None:
        target = connection.target
        if connection.is_over or connection.source.incarnation != connection.source_incarnation:
            return
        if target.core is None or not target.listens_on(connection.channel.address[1]):
            if target.machine_up:
                self.carry(connection, False, 0, self._on_refusal, connection)
            else:
                self.world.schedule(self.world.time + RECONNECT_MS, self._connect_to, connection)
            return
        if self._refuses_until.get((connection.source.id, target.id), 0) > self.world.time:
            self.world.saw("a running process seemed gone")
            self.carry(connection, False, 0, self._on_refusal, connection)
            return
        connection.target_incarnation = target.incarnation
        connection.server = ServerEnd(target, connection)
        connection.server.principal = connection.source.principal
        self.carry(connection, False, 0, self._connected, connection)

    def _connected(self, connection: Connection) -> None:
        if connection.is_held_by_client:
            connection.source.turn("connects", connection.peers.connected, connection.channel)

    def late_ms(self) -> int:
        """How long to hold a response back: until after its request timed out, or 0."""
        if not (self.late_responses and self.rng.permille(self.late_responses)):
            return 0
        self.world.saw("response after the request timeout")
        return self.world.setting.request_timeout_ms + self.rng.between(*self.late_by_ms)

    def _on_refusal(self, connection: Connection) -> None:
        if connection.is_held_by_client:
            connection.source.turn("is refused", self._report_refusal, connection)

    @staticmethod
    def _report_refusal(connection: Connection, now: Any) -> None:
        connection.peers.connect_failed(connection.channel, now, refused=True)

    # Carrying ------------------------------------------------------------------------------------

    def carry(
        self,
        connection: Connection,
        to_server: bool,
        after: int,
        act: Callable[..., None],
        *arguments: Any,
    ) -> int:
        """Call `act` at the other end, not before the time `after`; return the time of the call."""
        world = self.world
        client, server = connection.source, connection.target
        source, target = (client, server) if to_server else (server, client)
        when = world.time + self._low + (self._bits(32) * self._span >> 32)
        if not self.calm:
            direction = source.id, target.id
            if self.rng.permille(self.loss):
                world.saw("message lost")
                is_begun = connection.channel.connection is connection or connection.is_over
                if self.rng.below(2) and is_begun:  # a request to connect is only retransmitted
                    connection.reset()
                    return after
                when += RETRANSMIT_MS + self.rng.below(RETRANSMIT_MS)
            if self.rng.permille(self.delayed):
                when += self.rng.long_tail(self.delay_ms)
            when = max(when, self.clogged.get(direction, 0))
        when = max(when, after)
        (connection.requests if to_server else connection.responses).append((act, arguments))
        world.schedule(when, self._land, connection, source.id, target, to_server)
        return when

    def _land(self, connection: Connection, source: int, target: Replica, to_server: bool) -> None:
        pieces = connection.requests if to_server else connection.responses
        if (source, target.id) in self.cuts:
            # The bytes are retransmitted until they arrive or the connection ends.
            if connection.is_over:
                pieces.popleft()
                return
            again = self.world.time + RETRANSMIT_MS
            if to_server:
                connection.last_request_at = max(connection.last_request_at, again)
            else:
                connection.last_response_at = max(connection.last_response_at, again)
            self.world.schedule(again, self._land, connection, source, target, to_server)
            return
        act, arguments = pieces.popleft()
        if target.paused and act != self._connect_to:
            target.waiting.append((act, arguments))
        else:
            act(*arguments)

    # Ending --------------------------------------------------------------------------------------

    def process_ended(self, dead: Replica) -> None:
        """The machine of a dead process closes its connections."""
        for connection in self._open_connections():
            if connection.target is dead and connection.server is not None:
                connection.server = None
                connection.reset_client()
            elif connection.source is dead:
                self.carry(connection, True, 0, connection._closed_by_client)

    def _open_connections(self) -> list[Connection]:
        """The connections that at least one end still holds."""
        self._connections = [
            connection
            for connection in self._connections
            if not connection.is_over
            and (connection.is_held_by_client or connection.server is not None)
        ]
        return list(self._connections)

    def reset(self, source: Replica, target: Replica) -> None:
        """A connection breaks with everything in flight."""
        for connection in self._open_connections():
            if connection.source is source and connection.target is target:
                self.world.saw("connection reset")
                connection.reset()

    def refuse_falsely(self, source: Replica, target: Replica) -> None:
        """Connections end, and new ones are refused for a moment, though the process runs."""
        if source.core is not None and source is not target:
            self._refuses_until[source.id, target.id] = self.world.time + FALSELY_REFUSED_MS
            for connection in self._open_connections():
                if connection.source is source and connection.target is target:
                    connection.reset()

    def has_refused_falsely(self, target_id: int) -> bool:
        """Whether connections to a node have ever ended and been refused though it ran."""
        return any(target == target_id for _, target in self._refuses_until)

    # Watching ------------------------------------------------------------------------------------

    def watch_response(
        self, source: NodeProcess, connection: Connection, body: Any, response: Any
    ) -> None:
        self.world.sent(source, connection.source, body)
        if type(body) is VoteResult:
            self._note_vote(source, (connection.source, 0, 0), body)  # type: ignore[arg-type]  # only its core is used
        elif type(body) is FetchResult:
            if body.diverging is not None:
                self.world.saw("log diverges")
            if self.rng.permille(self.corrupt_permille):
                self._corrupt(response.responses, "records")
        elif type(body) is SnapshotChunk and self.rng.permille(self.corrupt_permille):
            self._corrupt(response.topics, "unaligned_records")

    def _corrupt(self, topics: Any, name: str) -> None:
        """Corrupt the bytes of a response, as a broken disk or memory of the leader may do."""
        for topic in topics:
            for partition in topic.partitions:
                data = bytes(getattr(partition, name) or b"")
                if data:
                    self.world.saw(
                        "corrupt response" if name == "records" else "corrupt snapshot chunk"
                    )
                    setattr(partition, name, damaged(data, self.rng))
