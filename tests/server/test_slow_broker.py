"""V17: metrics and the log report a broker whose heartbeats show that it applies no metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.client.deadline import Deadline
from tests.server.node_process import NodeProcess, create_topics
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum
from tests.server.test_http import start_with_http
from tests.server.web import Metrics
from tests.server.with_held_metadata import HELD
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BEHIND = "kraftlog_controller_brokers_behind"


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = Deadline(LIMIT_S)
    while not is_so():
        assert not deadline.is_over, what
        deadline.pause(0.02)


@pytest.mark.slow
@pytest.mark.long
def test_v17_a_broker_that_is_slow_to_apply_metadata_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C214: by metrics of the active controller, and by one line in its log."""
    held = tmp_path / "held"
    monkeypatch.setenv(HELD, str(held))
    quorum = Quorum(tmp_path, "broker.heartbeat.interval.ms=200\n", dynamic=True)
    try:
        port = start_with_http(quorum, CONTROLLERS[0])
        quorum.nodes[BROKER] = broker = NodeProcess(
            None,
            quorum.file(BROKER),
            errors=str(tmp_path / "errors-broker.txt"),
            module="tests.server.with_held_metadata",
            topics={"before": 1},
        )
        until(lambda: Metrics(port).value(BEHIND) == 0, "no broker is behind")
        held.touch()
        create_topics(broker.port, {"unseen": 1})
        until(lambda: Metrics(port).value(BEHIND) == 1, "the broker is behind")
        assert Metrics(port).value(f"{BEHIND}_ms_max") > 0
        warning = f"broker {BROKER} is slow to apply metadata"
        until(lambda: warning in quorum.nodes[CONTROLLERS[0]].output(), "a warning")
        held.unlink()
        create_topics(broker.port, {"after": 1})
        until(lambda: Metrics(port).value(BEHIND) == 0, "the broker has caught up")
        assert quorum.nodes[CONTROLLERS[0]].output().count(warning) == 1
    finally:
        quorum.end()
