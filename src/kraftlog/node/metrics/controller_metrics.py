"""Metrics of a controller; as in Kafka, every controller has them, also if it is not active."""

from __future__ import annotations

from kraftlog.node.metrics.family import COUNTER, GAUGE, single
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.controller.state import ControllerState
    from kraftlog.node.metrics.family import Family
    from kraftlog.node.node import Node
    from kraftlog.types import Now

PREFIX = "kafka_controller_kafkacontroller_"


def _state(name: str, help_text: str, value: Callable[[ControllerState], float]) -> Family:
    return single(
        PREFIX + name,
        GAUGE,
        help_text,
        lambda node, _: value(node.active_controller.controller.state),
    )


def _is_active(node: Node, _: Now) -> float:
    return int(node.active_controller is not None and node.active_controller.is_active)


def _fenced_count(state: ControllerState) -> float:
    return sum(1 for broker in list(state.brokers.values()) if broker.fenced)


def _behind_ms(node: Node, now: Now) -> list[int]:
    assert node.active_controller is not None, "only controllers have these metrics"
    return node.active_controller.controller.sessions.behind_ms(now.monotonic_ms)


FAMILIES = (
    single(
        PREFIX + "activecontrollercount",
        GAUGE,
        "1 if this node is the active controller.",
        _is_active,
    ),
    single(
        PREFIX + "newactivecontrollerscount",
        COUNTER,
        "Times this node became the active controller since it started.",
        lambda node, _: node.counts.activations,
    ),
    _state(
        "activebrokercount",
        "Unfenced brokers.",
        lambda state: len(state.brokers) - _fenced_count(state),
    ),
    _state("fencedbrokercount", "Fenced brokers.", _fenced_count),
    _state("globaltopiccount", "Topics in the cluster.", lambda state: len(state.topics)),
    _state(
        "globalpartitioncount", "Partitions in the cluster.", lambda state: len(state.partitions)
    ),
    _state(
        "offlinepartitionscount",
        "Partitions without a leader.",
        lambda state: len(state.index.leaderless),
    ),
    _state(
        "preferredreplicaimbalancecount",
        "Partitions whose leader is not the preferred replica.",
        lambda state: len(state.index.imbalanced),
    ),
    single(
        "kraftlog_controller_brokers_behind",
        GAUGE,
        "Unfenced brokers that have not applied what was committed a heartbeat earlier.",
        lambda node, now: len(_behind_ms(node, now)),
    ),
    single(
        "kraftlog_controller_brokers_behind_ms_max",
        GAUGE,
        "Longest time that a broker in kraftlog_controller_brokers_behind has lagged, in ms.",
        lambda node, now: max(_behind_ms(node, now), default=0),
    ),
    single(
        PREFIX + "metadataerrorcount",
        GAUGE,
        "Always 0: a node that cannot apply a record stops.",
        lambda _, __: 0,
    ),
    single(
        PREFIX + "lastappliedrecordoffset",
        GAUGE,
        "Offset of the last metadata record applied by this controller.",
        lambda node, _: node.quorum.applied - 1,
    ),
    single(
        PREFIX + "lastcommittedrecordoffset",
        GAUGE,
        "Offset of the last metadata record known to be committed.",
        lambda node, _: node.quorum.core.log.high_watermark - 1,
    ),
    single(
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        COUNTER,
        "Unclean leader elections by this controller.",
        lambda node, _: node.counts.unclean_elections,
    ),
)
