"""The HTTP pages of a node: metrics in Prometheus' text format, and health.

This adds the host's metrics to those of the node: process, sockets, load of the event loop.
"""

from __future__ import annotations

import os
import time
from math import isnan

from kraftlog.node.metrics.family import COUNTER, GAUGE, Family, single
from kraftlog.node.metrics.registry import families_of
from kraftlog.server.http import HttpResponse
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from kraftlog.node.authentication import AuthenticationCounts
    from kraftlog.node.metrics.family import Labels, Samples
    from kraftlog.server.loop import Server
    from kraftlog.server.tls_listeners import TlsListener
    from kraftlog.server.turns import StepTimes, TurnClock
    from kraftlog.types import Now

#: The format version that every Prometheus supports.
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


# The process -------------------------------------------------------------------------------------


def _memory_bytes(field: int) -> int:
    """A field of /proc/self/statm, which counts pages."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[field]) * os.sysconf("SC_PAGE_SIZE")


def _started_s() -> float:
    """Unix time of the process's start: the boot time plus the ticks from boot to the start."""
    with open("/proc/self/stat") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    with open("/proc/stat") as file:
        boot_line = next(line for line in file if line.startswith("btime"))
    return int(boot_line.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")


def _max_files() -> int:
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _disk_bytes(name: str) -> float:
    """Bytes that the process has read from or written to disk; NaN if unknown."""
    try:
        with open("/proc/self/io") as file:
            lines = [line for line in file if line.startswith(f"{name}:")]
    except OSError:
        return float("nan")
    return int(lines[0].split()[1])


PROCESS = (
    single(
        "process_cpu_seconds_total",
        COUNTER,
        "CPU time of the process.",
        lambda _, __: time.process_time(),
    ),
    single(
        "process_resident_memory_bytes",
        GAUGE,
        "Resident memory of the process.",
        lambda _, __: _memory_bytes(1),
    ),
    single(
        "process_virtual_memory_bytes",
        GAUGE,
        "Virtual memory of the process.",
        lambda _, __: _memory_bytes(0),
    ),
    single(
        "process_open_fds",
        GAUGE,
        "Open file descriptors.",
        lambda _, __: (
            len(os.listdir("/proc/self/fd")) - 1
        ),  # without the descriptor that lists them
    ),
    single(
        "process_max_fds",
        GAUGE,
        "Maximum number of open file descriptors.",
        lambda _, __: _max_files(),
    ),
    single(
        "process_start_time_seconds",
        GAUGE,
        "Start time of the process, in seconds since the epoch.",
        lambda _, __: _started_s(),
    ),
    single(
        "kafka_server_kafkaserver_linux_disk_read_bytes",
        GAUGE,
        "Bytes read from disk by the process.",
        lambda _, __: _disk_bytes("read_bytes"),
    ),
    single(
        "kafka_server_kafkaserver_linux_disk_write_bytes",
        GAUGE,
        "Bytes written to disk by the process.",
        lambda _, __: _disk_bytes("write_bytes"),
    ),
)


# The sockets -------------------------------------------------------------------------------------


def _connections(server: Server, _: Now) -> Samples:
    counts = dict.fromkeys(server.ports, 0)
    for connection in server.connections.values():
        counts[connection.listener_name] += 1
    for name, count in counts.items():
        yield _listener_labels(name), count


def _certificate_ends(server: Server, _: Now) -> Samples:
    for name in server.ports:
        tls = _tls_of(server, name)
        yield (("listener", name),), float("nan") if tls is None else tls.certificate.not_after_s


def _tls_of(server: Server, name: str) -> TlsListener | None:
    return None if server.tls is None else server.tls.listeners.get(name)


def _logins(server: Server, name: str) -> Samples:
    """A count of logins by listener: 0 where nobody has to log in."""
    counts = _login_counts(server)
    for listener in server.ports:
        yield _listener_labels(listener), getattr(counts.get(listener), name, 0)


def _login_counts(server: Server) -> Mapping[str, AuthenticationCounts]:
    """By listener with SASL."""
    authentication = server.node.authentication
    return {} if authentication is None else authentication.counts


def _successful(server: Server, _: Now) -> Samples:
    """Clients that have proved who they are: with SASL by their login, else by their handshake."""
    by_listener = _login_counts(server)
    for listener in server.ports:
        counts, tls = by_listener.get(listener), _tls_of(server, listener)
        handshakes = 0 if tls is None else tls.succeeded_count
        yield _listener_labels(listener), handshakes if counts is None else counts.successful


def _failed(server: Server, _: Now) -> Samples:
    """Failed handshakes and refused logins."""
    for labels, refused in _logins(server, "failed"):
        tls = _tls_of(server, labels[0][1])
        yield labels, refused + (0 if tls is None else tls.failed_count)


def _listener_labels(listener: str) -> Labels:
    return ("listener", listener), ("networkProcessor", "0")


SOCKETS = (
    Family(
        "kraftlog_tls_certificate_expiry_seconds",
        GAUGE,
        "Unix time at which the certificate of a listener expires; NaN without TLS.",
        _certificate_ends,
    ),
    Family(
        "kafka_server_socket_server_metrics_connection_count",
        GAUGE,
        "Open connections, by listener.",
        _connections,
    ),
    single(
        "kafka_server_socket_server_metrics_connection_creation_total",
        COUNTER,
        "Connections accepted since the start.",
        lambda server, _: server.accepted,
    ),
    single(
        "kafka_server_socket_server_metrics_connection_close_total",
        COUNTER,
        "Connections closed since the start.",
        lambda server, _: server.accepted - len(server.connections),
    ),
    Family(
        "kafka_server_socket_server_metrics_successful_authentication_total",
        COUNTER,
        "Logins by SASL since the start, and on listeners without it TLS handshakes, by listener.",
        _successful,
    ),
    Family(
        "kafka_server_socket_server_metrics_failed_authentication_total",
        COUNTER,
        "Failed TLS handshakes and refused logins since the start, by listener.",
        _failed,
    ),
    Family(
        "kafka_server_socket_server_metrics_successful_reauthentication_total",
        COUNTER,
        "Logins on connections whose clients had logged in before, by listener.",
        lambda server, _: _logins(server, "renewed"),
    ),
    Family(
        "kafka_server_socket_server_metrics_failed_reauthentication_total",
        COUNTER,
        "Those of them that were refused, by listener.",
        lambda server, _: _logins(server, "failed_renewals"),
    ),
    Family(
        "kafka_server_socket_server_metrics_expired_connections_killed_count",
        COUNTER,
        "Connections closed because their session was over (connections.max.reauth.ms).",
        lambda server, _: _logins(server, "expired"),
    ),
    single(
        "kafka_network_socketserver_memorypoolused",
        GAUGE,
        "Bytes of requests and unsent responses of all connections; see queued.max.request.bytes.",
        lambda server, _: server.memory.used,
    ),
    single(
        "kafka_network_socketserver_memorypoolavailable",
        GAUGE,
        "Bytes of queued.max.request.bytes that are not in use.",
        lambda server, _: max(server.memory.limit - server.memory.used, 0),
    ),
    single(
        "kafka_server_raftchannelmetrics_request_total",
        COUNTER,
        "Requests sent to other nodes.",
        lambda server, _: server.peers.requests,
    ),
    single(
        "kafka_server_raftchannelmetrics_response_total",
        COUNTER,
        "Responses received from other nodes.",
        lambda server, _: server.peers.responses,
    ),
    single(
        "kafka_server_raftchannelmetrics_outgoing_byte_total",
        COUNTER,
        "Bytes of requests sent to other nodes.",
        lambda server, _: server.peers.bytes_out,
    ),
    single(
        "kafka_server_raftchannelmetrics_incoming_byte_total",
        COUNTER,
        "Bytes of responses received from other nodes.",
        lambda server, _: server.peers.bytes_in,
    ),
)


# The loop ----------------------------------------------------------------------------------------


def _by_cause(
    times_by_cause: Callable[[TurnClock], dict[str, StepTimes]], value: Callable[[StepTimes], float]
) -> Callable[[Server, Now], Samples]:
    def measure(server: Server, _: Now) -> Samples:
        for cause, times in sorted(times_by_cause(server.turns).items()):
            yield (("cause", cause),), value(times)

    return measure


TURNS = (
    Family(
        "kraftlog_loop_long_turns_total",
        COUNTER,
        "Turns of the event loop that used 5 ms of CPU time or more, by their longest step.",
        _by_cause(lambda turns: turns.long_turns, lambda times: times.count),
    ),
    Family(
        "kraftlog_loop_long_turns_seconds_total",
        COUNTER,
        "CPU time of turns of 5 ms or more, by their longest step.",
        _by_cause(lambda turns: turns.long_turns, lambda times: times.total_ns / 1e9),
    ),
    single(
        "kraftlog_loop_longest_turn_seconds",
        GAUGE,
        "CPU time of the longest turn of 5 ms or more in the last minute; 0 if none.",
        lambda server, _: server.turns.longest_ns() / 1e9,
    ),
    Family(
        "kraftlog_loop_steps_seconds_total",
        COUNTER,
        "Time spent in steps of 1 ms or more, by API or by kind of internal work.",
        _by_cause(lambda turns: turns.steps, lambda times: times.total_ns / 1e9),
    ),
)


class IdleRatio:
    """Fraction of time in which the event loop was idle since the last scrape.

    Busy time is the CPU time of the loop's thread, so the loop need not measure anything. A scrape
    less than a second after the previous one returns the same value.
    """

    def __init__(self) -> None:
        self._measured_ms = -1
        self._busy_s = 0.0
        self.ratio = 1.0

    def measure(self, now_ms: int) -> float:
        elapsed_ms = now_ms - self._measured_ms
        if self._measured_ms >= 0 and elapsed_ms < 1000:
            return self.ratio
        busy_s = time.thread_time()
        if self._measured_ms >= 0:
            self.ratio = max(1 - (busy_s - self._busy_s) * 1000 / elapsed_ms, 0.0)
        self._measured_ms, self._busy_s = now_ms, busy_s
        return self.ratio


#: Kafka has a metric for each of three thread pools; all three measure the one event loop here.
IDLE_NAMES = (
    "kafka_server_raftmetrics_poll_idle_ratio_avg",
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
)
IDLE_HELP = "Fraction of time, 0 to 1, in which the event loop was idle."


def _idle(idleness: IdleRatio) -> tuple[Family, ...]:
    return tuple([_idle_family(name, idleness) for name in IDLE_NAMES])


def _idle_family(name: str, idleness: IdleRatio) -> Family:
    return single(name, GAUGE, IDLE_HELP, lambda _, now: idleness.measure(now.monotonic_ms))


HOST_FAMILIES = (*SOCKETS, *PROCESS, *TURNS, *_idle(IdleRatio()))


# The pages ---------------------------------------------------------------------------------------


class Pages:
    """Builds the page of a path; every value is computed on request."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def page(self, path: str, now: Now) -> HttpResponse | None:
        if path == "/metrics":
            return HttpResponse(200, self._metrics(now), METRICS_TYPE)
        if path == "/health/live":
            return _json(200, {"live": True})
        if path == "/health/ready":
            from kraftlog.node.metrics.health import readiness

            result = readiness(self._server.node, now, is_open=self._server.is_open)
            return _json(200 if result["ready"] else 503, result)
        return None

    def _metrics(self, now: Now) -> Iterator[str]:
        node = self._server.node
        for family in families_of(node):
            yield from exposition(family, node, now)
        for family in HOST_FAMILIES:
            yield from exposition(family, self._server, now)


def exposition(family: Family, source: Any, now: Now) -> Iterator[str]:
    """A family in Prometheus' text format, a line at a time."""
    yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
    for labels, value in family.measure(source, now):
        yield f"{family.name}{_labels(labels)} {_number(value)}\n"


def _labels(labels: Labels) -> str:
    inner = ",".join([f'{name}="{value.translate(_ESCAPED)}"' for name, value in labels])
    return f"{{{inner}}}" if inner else ""


def _number(value: float) -> str:
    return "NaN" if isnan(value) else repr(value)


def _json(status: int, result: dict[str, Any]) -> HttpResponse:
    import json

    text = json.dumps(result, indent=2) + "\n"
    return HttpResponse(status, iter([text]), "application/json")
