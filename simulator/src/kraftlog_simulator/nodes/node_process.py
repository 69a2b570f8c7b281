"""The process of a whole node, as its clients, connections, disks and threads see it."""

from __future__ import annotations

from kraftlog.types import ANONYMOUS
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.process import Replica

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from kraftlog.effects import SendRequest
    from kraftlog.node.node import Node
    from kraftlog.raft.messages import Batch
    from kraftlog.runner.peers import PeerChannels
    from kraftlog.types import Now, OffsetAndEpoch
    from kraftlog.wire.schema import Message
    from kraftlog_simulator.files import MemoryFiles
    from kraftlog_simulator.interfaces import SimulatedNetwork, SimulatedWorld
    from kraftlog_simulator.nodes.log_view import LogView
    from kraftlog_simulator.snapshot import Snapshot

    class HasResponses(Protocol):
        """A connection with responses that are sent at the end of the turn."""

        def send_finished(self) -> None: ...

    class HasHeldRequests(Protocol):
        """A connection whose requests wait for an earlier one."""

        @property
        def mutes(self) -> int: ...
        def serve_held(self, now: Now) -> None: ...

    class Request(Protocol):
        """A client's request, until it has its response."""

        @property
        def is_open(self) -> bool: ...
        def close(self) -> None: ...

    class NetworkOfNodes(SimulatedNetwork, Protocol):
        """A network of connections."""

        def connect(self, source: NodeProcess, channel: Any) -> Any: ...

    class WorldOfNodes(SimulatedWorld, Protocol):
        """A world of nodes, which reads their logs and plans faults of their disks."""

        #: By chain: the offset and the value of each append in its last batch.
        values: dict[int, list[tuple[int, int]]]

        @property
        def network(self) -> NetworkOfNodes: ...
        def replica_at(self, host: str) -> NodeProcess | None: ...
        def requested(self, effect: SendRequest) -> None: ...
        def note_chain(self, batch: Batch, chain: int) -> None: ...
        def chain_ending(self, end: OffsetAndEpoch) -> int: ...
        def snapshot_seen(self, replica: NodeProcess, snapshot: Snapshot) -> None: ...
        def job_ms(self, replica: NodeProcess, thread: str) -> int: ...
        def sync_fails(self, replica: NodeProcess) -> bool: ...
        def cancel_expired_crash(self, replica: NodeProcess) -> None: ...


class NodeProcess(Replica):
    """A process that runs a node on files in memory."""

    #: Of its own requests.
    principal = ANONYMOUS
    world: WorldOfNodes
    disk: LogView
    files: MemoryFiles
    peers: PeerChannels
    #: Connections on which a response is ready.
    ready_connections: dict[HasResponses, None]
    #: Connections with requests that wait for an earlier one.
    held_connections: dict[HasHeldRequests, None]

    @property
    def node(self) -> Node:
        raise NotImplementedError

    def turn(self, what: str, act: Callable[..., None], *arguments: Any) -> None:
        """One turn of the server's loop, for one event."""
        raise NotImplementedError

    def crash(self) -> None:
        """The process, or its machine, ends before some operation on its files."""
        raise NotImplementedError

    def stopped(self, error: BaseException) -> None:
        """The node cannot continue; the error says why."""
        raise NotImplementedError

    def listens_on(self, port: int) -> bool:
        raise NotImplementedError

    def send_as_client(
        self, api_key: int, version: int, request: Message, on_response: Callable[[Any], None]
    ) -> Request:
        """Send a client's request as bytes; `on_response` gets the response, if there is one."""
        raise NotImplementedError
