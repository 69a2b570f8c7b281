"""`ControllerChannel`: which requests a change of leadership fails."""

from __future__ import annotations

from typing import Any

from kraftlog.effects import ResponseReceived, SendRequest
from kraftlog.node.broker.controller_channel import ControllerChannel
from kraftlog.raft.messages import ElectionState
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.api_versions import ApiVersionsRequest
from tests.node.quorum.test_driver import NOW, driver_with_voters


def test_a_new_leader_fails_only_requests_to_the_former_one() -> None:
    """A request to a given node, such as for its cluster id (Q31), still gets its response."""
    machine, _ = driver_with_voters(1, 2, 3, election=ElectionState(1, 2))
    assert machine.driver is not None
    emitted: list[Any] = []

    def attempt(_: str, task: Any, *arguments: Any) -> bool:
        task(*arguments)
        return True

    channel = ControllerChannel(machine.driver, None, emitted.append, attempt)
    outcomes: list[tuple[str, Any]] = []
    key, request = ApiKey.API_VERSIONS, ApiVersionsRequest()
    channel.send(key, 3, request, lambda it, _: outcomes.append(("leader", it)), NOW)
    channel.send_to(3, ("c", 1), key, request, 2000, lambda it, _: outcomes.append(("node", it)))
    to_leader, to_node = [it for it in emitted if isinstance(it, SendRequest)]
    assert (to_leader.peer, to_node.peer) == (2, 3)
    channel.fail_pending(NOW)
    assert outcomes == [("leader", None)]
    channel.request_ended(ResponseReceived(to_node.channel, 3, to_node.number, "its response"), NOW)
    assert outcomes == [("leader", None), ("node", "its response")]
    channel.fail_pending(NOW)
    assert len(outcomes) == 2
