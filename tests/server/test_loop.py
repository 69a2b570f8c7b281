"""The event loop in this process: cases that no client can cause."""

from __future__ import annotations

import gc
import os
import signal
import socket
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kraftlog.errors import ConfigError
from kraftlog.server.io_thread import OsIOThreads
from kraftlog.server.listening import ListeningSocket
from kraftlog.server.loop import (
    ACCEPT_PAUSE_MS,
    EPOLLIN,
    FREEZE_AFTER_PARTITIONS,
    Server,
    read_clock,
)
from kraftlog.server.operator_log import log_line
from kraftlog.server.pages import Pages
from kraftlog.server.worker_process import OsWorkerProcess
from kraftlog.types import Now
from kraftlog.wire.apis import BROKER, CONTROLLER
from tests.node.frame_client import make_host

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server() -> Iterator[Server]:
    host = make_host()
    server = Server(OsIOThreads(), OsWorkerProcess(), max_frame=1 << 20, max_connections=8)
    server.set_node(host.node, host.runner)
    yield server
    server._close_all()
    host.deliver()  # a flush in progress ends before the logs are closed
    host.runner.close()


def test_a_listener_pauses_after_a_failed_accept(
    server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    port = server.listen("PLAINTEXT", "127.0.0.1", 0, BROKER)
    server.open_client_listeners()
    [fd] = server.listeners
    unlistening = socket.socket()  # not listening: accept fails, as without descriptors
    unlistening.setblocking(False)
    now = read_clock()
    server._accept(ListeningSocket(unlistening, "PLAINTEXT", BROKER), now)
    unlistening.close()
    assert "new connections wait: " in capfd.readouterr().err
    with socket.create_connection(("127.0.0.1", port)):
        assert (fd, EPOLLIN) not in server.epoll.poll(0)
        assert server.accept_paused_until_ms == now.monotonic_ms + ACCEPT_PAUSE_MS
        server.accept_paused_until_ms = 0  # as after the pause
        server.turn()
        server.turn()
        assert len(server.connections) == 1


def test_the_loop_reads_a_signal_so_that_it_is_not_woken_for_ever(server: Server) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    server.stop_on_signals()
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        server.turn()
        assert server.stopping
        assert server.epoll.poll(0) == []
    finally:
        os.close(signal.set_wakeup_fd(-1))
        for number, handler in before.items():
            signal.signal(number, handler)
        server.epoll.unregister(server._signals)
        os.close(server._signals)


def test_v5_clients_are_refused_before_unfencing_and_controllers_are_not(
    server: Server,
) -> None:
    """A refused client tries another broker; an open port means that the broker serves."""
    ports = {
        serves: server.listen("PLAINTEXT", "127.0.0.1", 0, serves)
        for serves in (BROKER, CONTROLLER)
    }
    socket.create_connection(("127.0.0.1", ports[CONTROLLER])).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", ports[BROKER]))
    request_readiness = partial(Pages(server).page, "/health/ready", read_clock())
    assert [getattr(request_readiness(), "status", None), server.is_open] == [503, False]
    server.open_client_listeners()
    socket.create_connection(("127.0.0.1", ports[BROKER])).close()
    assert [getattr(request_readiness(), "status", None), server.is_open] == [200, True]


def test_a_port_taken_during_startup_is_reported(server: Server) -> None:
    port = server.listen("PLAINTEXT", "127.0.0.1", 0, BROKER)
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(ConfigError, match=f"^listeners: 127.0.0.1:{port}: Address already in use$"),
    ):
        server.open_client_listeners()


def test_an_unreachable_peer_is_disconnected(server: Server) -> None:
    """Not every error of a dead connection is a ConnectionError in Python."""
    port = server.listen("PLAINTEXT", "127.0.0.1", 0, BROKER)
    server.open_client_listeners()
    with socket.create_connection(("127.0.0.1", port)):
        server.turn()
        [connection] = server.connections.values()
        connection.sock.close()  # receiving fails with EBADF, which is no ConnectionError either
        server.turns.begin()
        server._read(connection, Now(0, 0))
        assert not server.connections


def test_objects_are_frozen_again_after_much_growth(server: Server) -> None:
    before = gc.get_freeze_count()
    try:
        os.eventfd_write(server.io_threads.ready_fd, 1)  # a turn that waits for nothing
        server.turn()
        assert gc.get_freeze_count() == before
        server._freeze_above = 0
        os.eventfd_write(server.io_threads.ready_fd, 1)
        server.turn()
        assert gc.get_freeze_count() > before
        assert (
            server._freeze_above
            == 2 * len(server.node.replica_manager.by_log) + FREEZE_AFTER_PARTITIONS
        )
    finally:
        gc.unfreeze()


def test_an_unwritable_standard_error_does_not_stop_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = open("/dev/full", "w")  # noqa: SIM115 - closing it fails as well
    monkeypatch.setattr("sys.stderr", full)
    log_line("a line that cannot be written")
    with pytest.raises(OSError, match="No space"):
        full.close()
