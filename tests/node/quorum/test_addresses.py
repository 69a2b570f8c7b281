"""The address at which a node contacts a leader that was announced at another address."""

from __future__ import annotations

from kraftlog import effects
from kraftlog.logstate.voters import ReplicaKey
from kraftlog.node.pending_response import PendingResponse
from kraftlog.raft import messages as raft
from kraftlog.raft.messages import ElectionState
from kraftlog.types import Now
from tests.node.quorum.test_driver import NOW, driver_with_voters


def test_c70_a_false_endpoint_of_the_leader_costs_one_attempt() -> None:
    """C70: a false BeginQuorumEpoch names another address; the leader is still at the old one."""
    machine, emitted = driver_with_voters(1, 2, election=ElectionState(5, 2))
    driver, begin = machine.driver, raft.BeginEpoch("cluster", ReplicaKey(1), 2, 5)
    assert driver is not None
    driver.begin_epoch_received(PendingResponse(None), begin, ("127.0.0.1", 0), NOW)
    ports = []
    for number in range(4):
        now = Now(20_000 * number, 0)
        driver.poll(now)
        requests = [it for it in emitted if isinstance(it, effects.SendRequest)]
        emitted.clear()
        for request in requests:
            ports.append(request.port)
            driver.handle(effects.RequestFailed("quorum", request.peer, request.number), now)
    assert {*ports[1:]} == {0, 9092}, f"ports after the first, earlier request: {ports[1:]}"
