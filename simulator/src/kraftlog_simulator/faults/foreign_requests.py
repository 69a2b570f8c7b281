"""Requests that every replica must refuse: of another cluster, or for another replica (I17)."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey
from kraftlog.raft.messages import BeginEpoch, EndEpoch, Fetch, ReadOffset, Request, Vote
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.process import CLUSTER_ID
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from typing import Any

    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.rng import Rng

OTHER_CLUSTER = "another cluster"
#: A log end beyond that of every replica: the candidate's log is no reason to refuse.
HIGH_OFFSET = 1 << 40
#: The invariant that a violation names.
NAME = "identity"


class ForeignSender:
    """Takes the place of a pending response and keeps the response."""

    def __init__(self) -> None:
        self.response: Any = None

    def __repr__(self) -> str:
        return "a foreign sender"


def send_foreign_request(world: SimulatedWorld, rng: Rng) -> None:
    """Send one random request to one random replica."""
    # A replica that does not know its cluster id yet cannot detect another's (Q30).
    running = [r for r in world.running if not r.paused and r.disk.cluster_id is not None]
    if running:
        replica = rng.pick(running)
        check_refusal(world, replica, foreign_request(replica, rng))


def foreign_request(replica: Replica, rng: Rng) -> Any:
    assert replica.core is not None
    epoch = replica.core.election.epoch + rng.below(3)
    sender = ReplicaKey(0, b"s" * 16)
    other_directory = ReplicaKey(replica.id, b"t" * 16)
    foreign = [
        Vote(OTHER_CLUSTER, replica.key, epoch, sender, epoch, HIGH_OFFSET, rng.below(2) == 0),
        Vote(CLUSTER_ID, other_directory, epoch, sender, epoch, HIGH_OFFSET, rng.below(2) == 0),
        BeginEpoch(CLUSTER_ID, other_directory, 0, epoch),
        EndEpoch(OTHER_CLUSTER, 0, epoch, (replica.key,)),
        Fetch(OTHER_CLUSTER, sender, epoch, 0, 0, 0, 0, 1000),
        ReadOffset(OTHER_CLUSTER),
    ]
    # Before the confirmation, a leader of another cluster stops the process (Q31).
    if replica.core.is_cluster_id_confirmed:
        foreign.append(BeginEpoch(OTHER_CLUSTER, replica.key, 0, epoch))
    return rng.pick(foreign)


def check_refusal(world: SimulatedWorld, replica: Replica, body: Any) -> None:
    """Send a request and check that it is refused. Source: Q12, Q18, Q30, P5; Kafka's tests."""
    replica.run_due_work()
    core, pending = replica.core, ForeignSender()
    if core is None:
        return  # it crashed
    before = (core.role, core.election, core.log.end, core.log.high_watermark, core.timers.copy())
    replica.handle(Request(pending, body, "foreign sender", 1))
    world.saw("foreign request refused")
    if replica.core is not core:
        return  # it crashed
    after = (core.role, core.election, core.log.end, core.log.high_watermark, core.timers)
    if before != after:
        raise Violation(NAME, f"replica {replica.id} changed from {before} to {after} by {body}")
    if pending.response is not None and pending.response.error == ErrorCode.NONE:
        raise Violation(NAME, f"replica {replica.id} responded to {body} with {pending.response}")
