"""Metrics of a node with an authorizer; Kafka's are rates, by names of its plugins."""

from __future__ import annotations

from kraftlog.node.metrics.family import COUNTER, GAUGE, single

FAMILIES = (
    single(
        "kraftlog_authorization_acls",
        GAUGE,
        "ACLs that this node knows.",
        lambda node, _: len(node.image.acls),
    ),
    single(
        "kraftlog_authorization_denied_total",
        COUNTER,
        "Operations that clients were denied since the start.",
        lambda node, _: node.denials.count,
    ),
)
