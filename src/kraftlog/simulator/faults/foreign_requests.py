"""Requests that every replica must refuse: of another cluster, or for another replica (I17)."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.logstate.voters import ReplicaKey
from kraftlog.raft.messages import Begin, End, Fetch, ReadOffset, Request, Vote
from kraftlog.simulator.violation import Violation
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.simulator.interfaces import SimulatedWorld
    from kraftlog.simulator.process import Replica
    from kraftlog.simulator.rng import Rng

OTHER_CLUSTER = "another cluster"
NAME = "identity"


class ForeignSender:
    """Takes the place of a slot and keeps the response."""

    def __init__(self) -> None:
        self.answer: Any = None

    def __repr__(self) -> str:
        return "a foreign sender"


def send_foreign_requests(world: SimulatedWorld, rng: Rng) -> None:
    # A replica that does not know its cluster id yet cannot detect another's (Q30).
    running = [r for r in world.running if not r.paused and r.disk.cluster_id is not None]
    if running:
        replica = rng.pick(running)
        send_one(world, replica, foreign_request(replica, rng))


def foreign_request(replica: Replica, rng: Rng) -> Any:
    assert replica.core is not None
    epoch = replica.core.election.epoch + rng.below(3)
    me, other = ReplicaKey(0, b"s" * 16), ReplicaKey(replica.id, b"t" * 16)
    foreign = [
        Vote(OTHER_CLUSTER, replica.key, epoch, me, epoch, 1 << 40, rng.below(2) == 0),
        Vote("cluster", other, epoch, me, epoch, 1 << 40, rng.below(2) == 0),
        Begin("cluster", other, 0, epoch),
        End(OTHER_CLUSTER, 0, epoch, (replica.key,)),
        Fetch(OTHER_CLUSTER, me, epoch, 0, 0, 0, 0, 1000),
        ReadOffset(OTHER_CLUSTER),
    ]
    if replica.core.is_confirmed:  # before that, a leader of another cluster ends the process (Q31)
        foreign.append(Begin(OTHER_CLUSTER, replica.key, 0, epoch))
    return rng.pick(foreign)


def send_one(world: SimulatedWorld, replica: Replica, body: Any) -> None:
    """Send a request and check that it is refused. Source: Q12, Q18, Q30, P5; Kafka's tests."""
    replica.do_what_is_due()
    core, slot = replica.core, ForeignSender()
    if core is None:
        return  # it crashed
    before = (core.role, core.election, core.log.end, core.log.high_watermark, core.timers.copy())
    replica.handle(Request(slot, body, "foreign sender", 1))
    world.saw("foreign request refused")
    if replica.core is not core:
        return  # it crashed
    after = (core.role, core.election, core.log.end, core.log.high_watermark, core.timers)
    if before != after:
        raise Violation(NAME, f"replica {replica.id} obeyed {body}: {before} became {after}")
    if slot.answer is not None and slot.answer.error == ErrorCode.NONE:
        raise Violation(NAME, f"replica {replica.id} answered {body} with {slot.answer}")
