"""Readiness of a node, with reasons."""

from __future__ import annotations

from kraftlog.node.metrics import broker_metrics
from kraftlog.node.metrics.quorum_metrics import high_watermark
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kraftlog.node.node import Node
    from kraftlog.types import Now

BROKER_STATES = {
    broker_metrics.STARTING: "starting",
    broker_metrics.RECOVERY: "fenced",
    broker_metrics.RUNNING: "running",
    broker_metrics.SHUTTING_DOWN: "leaving",
}


def why_not_ready(node: Node, now: Now) -> list[str]:
    """Why the node is not ready; nothing if it is.

    A broker without controller role is ready even if the quorum has no leader: otherwise an outage
    of the controllers would take all brokers out of service.
    """
    reasons: list[str] = []
    if node.active_controller is not None:
        reasons += _quorum_problems(node, now)
    if node.logs.is_offline:
        reasons.append("no log directory works: the disk has failed")
    if node.broker_lifecycle is not None:
        state = broker_metrics.broker_state(node)
        if state != broker_metrics.RUNNING:
            reasons.append(f"the broker is {BROKER_STATES[state]}")
    return reasons


def _quorum_problems(node: Node, now: Now) -> Iterator[str]:
    core = node.quorum.core
    log, role = core.log, core.role
    if not role.has_live_leader(core):
        yield "this node knows no leader of the quorum"
    elif not log.high_watermark:
        yield "the high watermark of the metadata log is unknown"
    waits_ms = node.quorum.latency.waiting_ms(now.monotonic_ms)
    if waits_ms > core.config.fetch_timeout_ms:
        yield (
            f"the high watermark has been {log.high_watermark} for {waits_ms} ms, "
            f"while the log end offset is {log.end}"
        )


def readiness(node: Node, now: Now, *, is_open: bool = True) -> dict[str, Any]:
    """The status of the node for JSON. `is_open`: the client listeners are open."""
    core, latency = node.quorum.core, node.quorum.latency
    reasons = why_not_ready(node, now)
    if not reasons and not is_open:
        reasons.append("the client listeners are not open yet")
    status: dict[str, Any] = {
        "ready": not reasons,
        "reasons": reasons,
        "node_id": node.config.node_id,
        "roles": node.config.settings.process_roles,
        "quorum": {
            "state": core.role.name,
            "leader_id": node.quorum.leader_id,
            "epoch": core.election.epoch,
            "high_watermark": high_watermark(core),
            "log_end_offset": core.log.end,
            "high_watermark_moved_ms_ago": (
                None if latency.moved_ms < 0 else now.monotonic_ms - latency.moved_ms
            ),
            "uncommitted_for_ms": latency.waiting_ms(now.monotonic_ms),
        },
    }
    if node.broker_lifecycle is not None:
        status["broker"] = {
            "state": BROKER_STATES[broker_metrics.broker_state(node)],
            "epoch": node.broker_lifecycle.epoch,
        }
    return status
