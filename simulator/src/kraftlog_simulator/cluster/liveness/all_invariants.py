"""All invariants of liveness."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster.liveness.controller import (
    ControllerAnswers,
    ReassignmentIsCompleted,
    ReplayIsReported,
)
from kraftlog_simulator.cluster.liveness.data_requests import FetchIsAnswered, ProduceIsAnswered
from kraftlog_simulator.cluster.liveness.groups import CoordinatorIsLoaded, GroupIsAnswered
from kraftlog_simulator.cluster.liveness.isr import IsrIsProposed
from kraftlog_simulator.cluster.liveness.quorum import QuorumAnswers

if TYPE_CHECKING:
    from kraftlog_simulator.cluster.invariants import ClusterInvariant

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
