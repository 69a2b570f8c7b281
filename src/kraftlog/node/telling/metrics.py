"""Which families a node has, by its roles."""

from __future__ import annotations

from kraftlog.node.telling import of_broker, of_controller, of_quorum
from kraftlog.node.telling.family import GAUGE, Family
from kraftlog.value import TYPE_CHECKING
from kraftlog.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.node.node import Node
    from kraftlog.node.telling.family import Samples
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


INFO = Family("kraftlog_info", GAUGE, "Always 1; the labels say who this is.", _info)
OF_EVERY_NODE = (INFO, *of_quorum.FAMILIES, *of_broker.REQUESTS)


def families_of(node: Node) -> Iterator[Family]:
    yield from OF_EVERY_NODE
    if node.governing is not None:
        yield from of_controller.FAMILIES
    if node.membership is not None:
        yield from of_broker.FAMILIES
