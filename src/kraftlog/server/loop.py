"""The event loop of the server: one thread, one epoll, turn after turn.

A turn reads each ready socket once and serves the requests, then writes the appends, one call per
partition, then sends the responses, one call per connection. Threads exist only for calls that
block in the kernel and report through an eventfd (see `io_thread`).

Connections share the time of a turn in slices (`turns`). Sockets that a turn did not reach are read
first in the next one. Requests left after a connection's slice follow in rotation, at least one
connection per turn.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import time
from collections import deque

from kraftlog.errors import (
    ConfigError,
    InternalError,
    KraftlogError,
    ProtocolError,
    UnexpectedTlsError,
    message_of,
)
from kraftlog.server.connection_rates import AcceptRates
from kraftlog.server.connections import Arena, Connection
from kraftlog.server.limits import ConnectionLimits
from kraftlog.server.listening import ListeningSocket, bind, host_of, set_client_options
from kraftlog.server.memory import ALWAYS_READ_BYTES, IDLE_MS, ClientMemory
from kraftlog.server.operator_log import log_line
from kraftlog.server.peers import SocketPeers
from kraftlog.server.turns import SENDS_NS, SLICE_NS, TurnClock
from kraftlog.types import NEVER_MS, Now
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import BROKER

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.runner.runner import Runner
    from kraftlog.server.http import HttpServer
    from kraftlog.server.io_thread import OsIOThreads
    from kraftlog.server.tls_listeners import TlsListeners
    from kraftlog.server.worker_process import OsWorkerProcess

EPOLLIN, EPOLLOUT = select.EPOLLIN, select.EPOLLOUT
BROKEN = select.EPOLLERR | select.EPOLLHUP
#: New connections accepted per turn from one listener.
ACCEPTED_AT_ONCE = 32
#: Interval of connection maintenance, and how many connections it may close.
MAINTENANCE_MS = 1000
CLOSED_AT_ONCE = 64
#: How soon more of them are closed, if there are.
CLOSE_MORE_MS = 10
#: Sockets served per turn: if a thousand group members send at once, each would have to wait for
#: the responses of all. epoll reports the others in the next turn.
READY_PER_TURN = 256
#: The least number of new events per turn, however many sockets are left from earlier turns.
MIN_READY = 64
#: How long new connections wait at a limit or without a free descriptor, unless another closes.
ACCEPT_PAUSE_MS = 1000
#: Thresholds of the garbage collector for its three generations: full collections are rare, because
#: each one would traverse all partitions of a starting node, or a request of half a million names.
GC_THRESHOLDS = (700, 10, 1000)
#: Number of new partitions after which the garbage collector freezes all objects again.
FREEZE_AFTER_PARTITIONS = 1000
#: Time after which a node that is not ready logs why.
LOG_NOT_READY_AFTER_MS = 5000
#: Time limit of a controlled shutdown.
SHUTDOWN_MS = 2000


def read_clock() -> Now:
    return Now(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)


class Server:
    """Hosts one node: its sockets, clock and turns; `set_node` attaches node and runner."""

    node: Node
    runner: Runner

    def __init__(
        self,
        io_threads: OsIOThreads,
        worker: OsWorkerProcess,
        *,
        max_frame: int,
        max_connections: int,
        turns: TurnClock | None = None,
        memory: ClientMemory | None = None,
    ) -> None:
        self.io_threads = io_threads
        self.worker = worker
        self.max_frame = max_frame
        self.max_connections = max_connections
        self.turns = turns or TurnClock()
        self.limits = ConnectionLimits(lambda name: self.node.config_layers().value(name))
        self.rates = AcceptRates(lambda: self.node)
        self._refusal_logged_ns = -1_000_000_000
        self.memory = memory or ClientMemory()
        self.arena = Arena()
        self.epoll = select.epoll()
        self.connections: dict[int, Connection] = {}
        #: Listening sockets by their descriptors.
        self.listeners: dict[int, ListeningSocket] = {}
        #: Client listeners that are not open yet.
        self._unopened_listeners: list[ListeningSocket] = []
        #: The port of each listener, by its name.
        self.ports: dict[str, int] = {}
        self.peers = SocketPeers(self.epoll, self._notify)
        #: Time of the next connection maintenance.
        self._maintenance_due_ms = 0
        #: When new connections are accepted again; None while they are.
        self.accept_paused_until_ms: int | None = None
        #: The earliest of all deadlines (see `_wait`), as of the last poll.
        self._due_ms = 0
        #: Connections with something to send; they hold this list, so it is never replaced.
        self.dirty: list[Connection] = []
        self.stopping = False
        self._signals = -1
        #: Whether a second signal has arrived: the node stops without a controlled shutdown.
        self.skips_controlled_shutdown = False
        #: Connections with a readable socket that a turn did not reach: read first in the next one.
        self.unread: deque[Connection] = deque()
        #: Connections with requests left after their slice: served in rotation, after the sockets.
        self.unserved: deque[Connection] = deque()
        self.http: HttpServer | None = None
        #: None if no listener of this node, and none that it connects to, has TLS.
        self.tls: TlsListeners | None = None
        #: With more partitions than this, `_freeze_objects` is due.
        self._freeze_above = FREEZE_AFTER_PARTITIONS
        #: Connections accepted since the start.
        self.accepted = 0
        self.epoll.register(io_threads.ready_fd, EPOLLIN)
        self.epoll.register(worker.ready_fd, EPOLLIN)

    def set_node(self, node: Node, runner: Runner) -> None:
        self.node, self.runner = node, runner

    def _notify(self, report: Any, now: Now) -> None:
        self.node.handle(report, now)

    def listen(self, name: str, host: str, port: int, serves: int) -> int:
        """Bind a port for the APIs of brokers or controllers and return it.

        Controller listeners open at once. Client listeners open when the node is ready: before
        that, its metadata is from its last run, and refused clients try another broker.
        """
        sock = bind(host, port)
        tls = self.tls.listeners.get(name) if self.tls else None
        listener = ListeningSocket(sock, name, serves, tls)
        if serves == BROKER:
            self._unopened_listeners.append(listener)
        else:
            self._open_listener(listener)
        bound: int = sock.getsockname()[1]
        return bound

    def _open_listener(self, listener: ListeningSocket) -> None:
        listener.sock.listen(1024)
        fd = listener.sock.fileno()
        self.listeners[fd] = listener
        self.epoll.register(fd, EPOLLIN if self.accept_paused_until_ms is None else 0)

    def open_client_listeners(self) -> None:
        """Open the client listeners; fails if another process listens on the port."""
        while self._unopened_listeners:
            listener = self._unopened_listeners[0]
            try:
                self._open_listener(listener)
            except OSError as error:
                host, port = listener.sock.getsockname()[:2]
                raise ConfigError(f"listeners: {host}:{port}: {message_of(error)}") from error
            del self._unopened_listeners[0]

    @property
    def is_open(self) -> bool:
        """Whether the client listeners are open."""
        return not self._unopened_listeners

    def addresses(self) -> list[tuple[str, int, int]]:
        """Host, port and served APIs of every open listener."""
        return [
            (*listener.sock.getsockname()[:2], listener.serves)
            for listener in self.listeners.values()
        ]

    def stop_on_signals(self) -> None:
        """Stop the loop after the turn in which SIGTERM or Ctrl-C arrives."""
        self._signals, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        self.epoll.register(self._signals, EPOLLIN)

    def _stop(self, *_: object) -> None:
        self.stopping, self.skips_controlled_shutdown = True, self.stopping

    def run(self, on_ready: Callable[[], None]) -> None:
        """Run turns until stopped, then close everything.

        An exception here is an internal error or a failed disk: the node stops without writing
        the clean-shutdown marker.
        """
        try:
            self.runner.finish_turn(read_clock())
            self._wait_until_ready()
            self._freeze_objects()
            if not self.stopping:
                self.open_client_listeners()
                on_ready()
            gc.freeze()  # long-lived objects of the node need no garbage collection
            self.turns.is_serving = True
            while not self.stopping:
                self.turn()
            self._controlled_shutdown()
            # A failure of the last flushes must be known before the logs are closed as clean.
            self.io_threads.finish(read_clock())
        except BaseException:
            self._close_all()
            self.runner.abandon()
            raise
        self._close_all()
        self.runner.close()

    def _wait_until_ready(self) -> None:
        """Run turns until the node is ready; log once why it is not."""
        log_from_ms = read_clock().monotonic_ms + LOG_NOT_READY_AFTER_MS
        has_logged = False
        while not (self.stopping or self.node.is_ready):
            self.turn()
            now = read_clock()
            if not has_logged and now.monotonic_ms >= log_from_ms:
                from kraftlog.node.metrics.health import why_not_ready

                has_logged = True
                log_line(f"not ready yet: {'; '.join(why_not_ready(self.node, now))}")

    def _controlled_shutdown(self) -> None:
        """Hand over leadership, until the time limit or a second signal."""
        now = read_clock()
        until_ms = now.monotonic_ms + SHUTDOWN_MS
        self.node.shut_down(now)
        self.runner.finish_turn(now)
        self.peers.flush(now)
        while (
            not (self.node.has_left or self.skips_controlled_shutdown)
            and read_clock().monotonic_ms < until_ms
        ):
            self.turn()

    def _freeze_objects(self) -> None:
        """Exempt all present objects from garbage collection, because most are long-lived.

        Thousands of partitions have a million objects, which take 0.1 s to traverse. Reference
        counting still frees them, except for cycles that exist now.
        """
        gc.freeze()
        self._freeze_above = 2 * len(self.node.replica_manager.by_log) + FREEZE_AFTER_PARTITIONS

    def turn(self) -> None:
        """Wait, serve requests, write, send responses.

        Produce and Fetch change no deadlines, nor do this broker's own fetches: after a turn with
        nothing else, `_due_ms` is still valid, and neither the node nor the peers are polled
        before it.
        """
        events = self._wait()
        node, turns = self.node, self.turns
        began_ns = turns.begin()
        now = Now(began_ns // 1_000_000, time.time_ns() // 1_000_000)
        node.now = now
        if self.unread:
            self._read_unread(now)
        for fd, event in events:
            connection = self.connections.get(fd)
            if connection is None:
                turns.step(self._event(fd, event, now))
            elif event == EPOLLIN:
                self._read(connection, now)
            else:
                self._client_event(connection, event, now)
        if self.unserved:
            self._serve_unserved(now)
        if node.needs_poll or now.monotonic_ms >= self._due_ms:
            node.needs_poll = True
            if len(node.replica_manager.by_log) > self._freeze_above:
                self._freeze_objects()
                turns.step("garbage collection")
            self._end_pauses(now)
            if now.monotonic_ms >= self._maintenance_due_ms:
                self._maintain_connections(now)
            node.poll(now)
            self.peers.expire(now)
            turns.step("timers")
            if self.http is not None:
                self.http.continue_pages(now)
                turns.step("http")
        self.runner.finish_turn(now)
        self.arena.clear()
        self._due_ms = min(self._due_ms, self.peers.flush(now), node.due_ms)
        at_ns = turns.step("append")
        if self.dirty:
            took_ms = (at_ns - began_ns + 500_000) // 1_000_000
            node.counts.latency.turn_ends(now.monotonic_ms, took_ms)
            self._send()
        turns.end("send")

    def _wait(self) -> list[tuple[int, int]]:
        if self.unread or self.unserved or self.dirty:
            return self.epoll.poll(0, max(READY_PER_TURN - len(self.unread), MIN_READY))
        if self.node.needs_poll:
            http = self.http
            if self.runner.has_work or self.node.has_work or (http is not None and http.has_work):
                return self.epoll.poll(0, READY_PER_TURN)
            deadlines = (
                self.node.deadline(),
                self.runner.deadline(),
                self.peers.deadline(),
                self.accept_paused_until_ms,
                self.rates.deadline(),
                self._maintenance_due_ms if self.connections or self.memory.is_due else None,
                None if http is None else http.deadline(),
            )
            self._due_ms = min([due_ms for due_ms in deadlines if due_ms is not None])
            self.node.needs_poll = False
            self.node.due_ms = NEVER_MS
        wait_s = max(self._due_ms - read_clock().monotonic_ms, 0) / 1000
        return self.epoll.poll(wait_s, READY_PER_TURN)

    def _event(self, fd: int, event: int, now: Now) -> str:
        """Handle an event that is not a client's; return its kind for the turn statistics."""
        if self.peers.owns(fd):
            # Received bytes need no poll; the node decides whether a response does.
            self.node.needs_poll |= event != EPOLLIN
            self.peers.event(fd, event, now)
            return "peers"
        self.node.needs_poll = True
        if fd in self.listeners:
            self._accept(self.listeners[fd], now)
            return "accept"
        if fd == self.io_threads.ready_fd:
            self.io_threads.deliver(now)
            return "flush"
        if fd == self._signals:  # left in the pipe, it would keep the loop busy during the shutdown
            os.read(fd, 64)
            return "signal"
        if fd == self.worker.ready_fd:
            self.worker.deliver(now)
            return "compaction"
        if self.http is not None:
            self.http.event(fd, event, now)
        return "http"

    # Clients -------------------------------------------------------------------------------------

    def _accept(self, listener: ListeningSocket, now: Now) -> None:
        is_limited = self._is_limited(listener)
        for _ in range(ACCEPTED_AT_ONCE):
            if len(self.connections) + self.rates.held >= self.max_connections:
                self._pause_accepting(
                    f"the limit of {self.max_connections} open connections is reached", now
                )
                return
            if is_limited and self.limits.is_full:
                self._pause_accepting(
                    "the limit of max.connections is reached", now, only_limited=True
                )
                return
            if self.rates.pauses(listener, now, counts_for_node=is_limited):
                self.node.needs_poll = True  # for its deadline
                self.epoll.modify(listener.sock.fileno(), 0)
                return
            try:
                sock, address = listener.sock.accept()
            except (BlockingIOError, ConnectionError):
                return
            except OSError as error:
                self._pause_accepting(str(error), now)
                return
            host = host_of(address)
            if listener.serves & BROKER and self.rates.holds(sock, host, now):
                self.node.needs_poll = True
                continue
            self.rates.accepted(listener, now, counts_for_node=is_limited)
            refusal = self.limits.refusal(host) if listener.serves & BROKER else None
            if refusal is not None:
                sock.close()
                self._log_refusal(refusal)
                continue
            set_client_options(sock)
            connection = (listener.tls.connection if listener.tls else Connection)(
                sock,
                f"{host}:{address[1]}",
                self.max_frame,
                self.node.counts.latency,
                self.turns,
                self.memory,
            )
            connection.dirty = self.dirty
            connection.serves = listener.serves
            connection.listener_name = listener.name
            self.node.accepted(connection)
            connection.events = EPOLLIN
            self.connections[connection.fd] = connection
            self.limits.opened(connection)
            self.accepted += 1
            self.epoll.register(connection.fd, EPOLLIN)

    def _is_limited(self, listener: ListeningSocket) -> bool:
        """Whether `max.connections` applies: not to controller listeners, nor to the inter-broker
        listener if clients have another one."""
        if not listener.serves & BROKER:
            return False
        client_listeners = [other for other in self.listeners.values() if other.serves & BROKER]
        inter_broker = self.node.config.settings.inter_broker_listener_name
        return len(client_listeners) == 1 or listener.name != inter_broker

    def _log_refusal(self, why: str) -> None:
        """Log at most once per second, because refused clients retry."""
        if self.turns.began_ns >= self._refusal_logged_ns + 1_000_000_000:
            self._refusal_logged_ns = self.turns.began_ns
            log_line(f"closed a new connection: {why}")

    def _pause_accepting(self, why: str, now: Now, *, only_limited: bool = False) -> None:
        """Stop accepting for a while, because a ready listener would keep the loop busy."""
        log_line(f"new connections wait: {why}")
        self.accept_paused_until_ms = now.monotonic_ms + ACCEPT_PAUSE_MS
        for fd, listener in self.listeners.items():
            if not only_limited or self._is_limited(listener):
                self.epoll.modify(fd, 0)

    def _end_pauses(self, now: Now) -> None:
        """Accept again where connections have waited long enough."""
        until_ms = self.accept_paused_until_ms
        if until_ms is not None and until_ms <= now.monotonic_ms:
            self._accept_again()
        for fd in self.rates.expire(now):
            if self.accept_paused_until_ms is None:
                self.epoll.modify(fd, EPOLLIN)

    def _accept_again(self) -> None:
        self.accept_paused_until_ms = None
        for fd in self.listeners:
            if not self.rates.is_paused(fd):
                self.epoll.modify(fd, EPOLLIN)

    def _client_event(self, connection: Connection, event: int, now: Now) -> None:
        """Handle an event of a client socket: readable, writable or closed."""
        if event & EPOLLOUT:
            connection.mark_dirty()
        if event & EPOLLIN:
            self._read(connection, now)
        elif event & BROKEN and not connection.is_queued:
            self._drop(connection)

    def _read(self, connection: Connection, now: Now) -> None:
        """Read a ready client socket now, or first in the next turn."""
        turns = self.turns
        if connection.is_queued:
            return
        if turns.step_ended_ns < turns.requests_until_ns and self.arena.has_room():
            self._serve(connection, now)
        else:
            connection.is_queued = True
            self.unread.append(connection)

    def _read_unread(self, now: Now) -> None:
        """Read the sockets that an earlier turn did not reach."""
        turns, unread = self.turns, self.unread
        while unread and turns.step_ended_ns < turns.requests_until_ns and self.arena.has_room():
            connection = unread.popleft()
            connection.is_queued = False
            if not connection.closed:
                self._serve(connection, now)

    def _serve_unserved(self, now: Now) -> None:
        """Continue with requests left by earlier turns, of at least one connection."""
        turns, unserved = self.turns, self.unserved
        while unserved:
            connection = unserved.popleft()
            connection.is_queued = False
            if not connection.closed:
                self._serve(connection, now)
                if turns.step_ended_ns >= turns.requests_until_ns:
                    return

    def _serve(self, connection: Connection, now: Now) -> None:
        """Serve requests of a connection for a slice of the turn."""
        turns = self.turns
        # This event came before the `mute`, or before `_send` could stop watching the socket.
        if connection.mutes:
            return
        turns.slice_until_ns = turns.step_ended_ns + SLICE_NS
        node = connection.gate or self.node
        try:
            if connection.holds_frames:
                connection.serve_rest(self.arena, node, now)
            else:
                connection.receive(self.arena, node, now)
        except BlockingIOError:
            pass  # of TLS, a part of a record may have come, and its decryption takes time
        except UnexpectedTlsError as error:
            self._log_refusal(f"{connection.peer}: {error}")
            self._drop(connection)
        except ProtocolError as error:
            log_line(f"closed the connection from {connection.peer}: invalid request: {error}")
            self._drop(connection)
        except InternalError as error:
            log_line(str(error))
            self._drop(connection)
        except ConnectionError:
            self._drop(connection)
        turns.step("receive")
        if connection.holds_frames and not connection.is_reading_paused():
            self._queue_unserved(connection)

    def _queue_unserved(self, connection: Connection) -> None:
        if not connection.is_queued:
            connection.is_queued = True
            self.unserved.append(connection)

    def _send(self) -> None:
        """Send once on every connection with new responses.

        Connections beyond the time limit follow in the next turn; at least one is served.
        """
        turns = self.turns
        until_ns = turns.step_ended_ns + SENDS_NS
        dirty = self.dirty[:]
        self.dirty.clear()
        for number, connection in enumerate(dirty):
            if connection.closed:
                continue
            if number and turns.step("send") >= until_ns:
                self.dirty[:0] = dirty[number:]
                return
            connection.dirty = self.dirty
            try:
                connection.send()
            except ProtocolError as error:
                log_line(f"closed the connection from {connection.peer}: invalid request: {error}")
                self._drop(connection)
                continue
            except (OSError, KraftlogError) as error:
                if isinstance(error, KraftlogError):
                    log_line(f"closed the connection from {connection.peer}: {error}")
                self._drop(connection)
                continue
            self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        """Register the events that the connection waits for: writable, readable or both."""
        wanted = EPOLLIN
        if not connection.owes_nothing:
            connection.charge()
            memory = self.memory
            if connection.is_reading_paused():
                wanted = 0
                if connection.charged > ALWAYS_READ_BYTES and memory.lacks(connection.needs):
                    memory.wait(connection)
            elif memory.waiting:
                memory.waiting.pop(connection, None)
            if connection.out:
                wanted |= EPOLLOUT
        if connection.holds_frames and wanted & EPOLLIN:
            self._queue_unserved(connection)
        if wanted != connection.events:
            connection.events = wanted
            self.epoll.modify(connection.fd, wanted)

    def _maintain_connections(self, now: Now) -> None:
        """Once per second: close idle connections, and return memory to the system.

        Changed certificates are noticed here, before the first handshake that could use them.
        """
        self._maintenance_due_ms = now.monotonic_ms + MAINTENANCE_MS
        for connection in self.limits.idle(self.turns.began_ns, CLOSED_AT_ONCE):
            self._drop(connection)
        if self.tls is not None:
            overdue = list(self.tls.expired(self.turns.began_ns, CLOSED_AT_ONCE))
            for connection in overdue:
                self._drop(connection)
            if len(overdue) >= CLOSED_AT_ONCE:  # more than once a second, or they pile up
                self._maintenance_due_ms = now.monotonic_ms + CLOSE_MORE_MS
            self.tls.reload(self.node.config_layers(), now)
        if self.memory.waiting:
            self._make_room()
        self.memory.trim()
        self.turns.step("connections")

    def _make_room(self) -> None:
        """Close connections that use memory and are idle for `IDLE_MS`, until enough is free."""
        memory = self.memory
        since_ns = self.turns.began_ns - IDLE_MS * 1_000_000
        idle = [
            connection
            for connection in self.connections.values()
            if connection.charged > ALWAYS_READ_BYTES
            and connection.active_ns <= since_ns
            and not (connection in memory.waiting and connection.is_kept_waiting)
        ]
        idle.sort(key=lambda connection: connection.active_ns)
        for connection in idle[:CLOSED_AT_ONCE]:
            if not memory.is_low:
                return
            log_line(
                f"closed the connection from {connection.peer}: it uses "
                f"{connection.charged} bytes, has been idle for {IDLE_MS // 1000} s, and all "
                f"connections together have reached queued.max.request.bytes ({memory.limit})"
            )
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        if self.connections.pop(connection.fd, None) is not None:
            with contextlib.suppress(OSError):
                self.epoll.unregister(connection.fd)
            connection.close()
            self.limits.closed(connection)
            if self.accept_paused_until_ms is not None:
                self._accept_again()

    def _close_all(self) -> None:
        self.accept_paused_until_ms = None
        for listener in (*self._unopened_listeners, *self.listeners.values()):
            listener.sock.close()
        self.rates.close()
        self.peers.close()
        if self.http is not None:
            self.http.close()
        for connection in list(self.connections.values()):
            self._drop(connection)
        self.worker.close()
        self.io_threads.close()
        self.epoll.close()
