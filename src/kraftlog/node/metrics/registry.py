"""The metric families of a node, by its roles."""

from __future__ import annotations

from kraftlog.node.metrics import (
    access_metrics,
    broker_metrics,
    controller_metrics,
    quorum_metrics,
    quota_metrics,
)
from kraftlog.node.metrics.family import GAUGE, Family
from kraftlog.value import TYPE_CHECKING
from kraftlog.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.node.metrics.family import Samples
    from kraftlog.node.node import Node
    from kraftlog.types import Now


def _info(node: Node, _: Now) -> Samples:
    config = node.config
    labels = (
        ("version", VERSION),
        ("cluster_id", node.cluster_id or ""),
        ("node_id", str(config.node_id)),
        ("roles", ",".join(config.settings.process_roles)),
    )
    return [(labels, 1)]


INFO = Family("kraftlog_info", GAUGE, "Always 1; the labels identify the node.", _info)
OF_EVERY_NODE = (
    INFO,
    *quorum_metrics.FAMILIES,
    *broker_metrics.REQUESTS,
    *quota_metrics.FAMILIES,
)


def families_of(node: Node) -> Iterator[Family]:
    yield from OF_EVERY_NODE
    if node.authorizer is not None:
        yield from access_metrics.FAMILIES
    if node.active_controller is not None:
        yield from controller_metrics.FAMILIES
    if node.broker_lifecycle is not None:
        yield from broker_metrics.FAMILIES
