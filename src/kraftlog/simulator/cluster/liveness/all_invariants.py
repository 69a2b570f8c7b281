"""All invariants of liveness."""

from __future__ import annotations

from kraftlog.simulator.cluster.liveness.controller import (
    ControllerAnswers,
    ReassignmentIsCompleted,
    ReplayIsReported,
)
from kraftlog.simulator.cluster.liveness.data_requests import FetchIsAnswered, ProduceIsAnswered
from kraftlog.simulator.cluster.liveness.groups import CoordinatorIsLoaded, GroupIsAnswered
from kraftlog.simulator.cluster.liveness.isr import IsrIsProposed
from kraftlog.simulator.cluster.liveness.quorum import QuorumAnswers
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.simulator.cluster.invariants import ClusterInvariant

LIVENESS_INVARIANTS: tuple[type[ClusterInvariant], ...] = (
    ProduceIsAnswered,
    FetchIsAnswered,
    CoordinatorIsLoaded,
    GroupIsAnswered,
    IsrIsProposed,
    ReassignmentIsCompleted,
    ControllerAnswers,
    ReplayIsReported,
    QuorumAnswers,
)
