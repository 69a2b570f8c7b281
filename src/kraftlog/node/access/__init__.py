"""What the authorizer is asked before a request is served, and what those get who may not.

Loaded by the first request to a node that has an authorizer.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.node.access.asked import Asked
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse


def is_permitted(node: ServingNode, pending: PendingResponse, request: Any) -> bool:
    """Whether the handler may serve a request; else it has been answered.

    What is not allowed within a request is taken out of it, and added to the response.
    """
    asked = asked_of(node, pending, request)
    if asked is None:
        return True
    from kraftlog.node.access.rules import rule_of

    assert pending.api is not None
    return rule_of(pending.api.key).permits(asked)


def asked_of(node: ServingNode, pending: PendingResponse, request: Any) -> Asked | None:
    """What the authorizer can be asked about a request; None if everyone may do everything."""
    if node.authorizer is None:
        return None
    from kraftlog.node.access.asked import Asked

    return Asked(node.authorizer, node, pending, request)
