"""DescribeAcls: the committed ACLs that match a filter, by resource."""

from __future__ import annotations

from kraftlog.authorization.acls import filter_of
from kraftlog.errors import ErrorCode
from kraftlog.node.pending_response import items_of
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.authorization.acls import AclFilter
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now
    from kraftlog.wire.messages.describe_acls import DescribeAclsRequest

#: ACLs that are compared in one step, and its cost in microseconds.
COMPARED_AT_ONCE, COMPARING_COST = 100, 400


def handle(
    node: ServingNode,
    pending: PendingResponse,
    request: DescribeAclsRequest,
    now: Now,  # noqa: ARG001 - interface of handlers
) -> Iterator[int] | None:
    condition = filter_of(request)
    code, why = ErrorCode.INVALID_REQUEST, condition.unknown
    if node.authorizer is None:
        code, why = ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker"
    if why:
        pending.respond(DescribeAclsResponse(error_code=code, error_message=why, resources=()))
        return None
    return _respond_in_steps(node, pending, condition)


def _respond_in_steps(
    node: ServingNode, pending: PendingResponse, condition: AclFilter
) -> Iterator[int]:
    found: dict[tuple[int, str, int], list[AclDescription]] = {}
    resources: list[DescribeAclsResource] = []
    for number, acl in enumerate(list(node.image.acls.values()), 1):
        if not number % COMPARED_AT_ONCE:
            yield COMPARING_COST
        if not condition.matches(acl):
            continue
        pattern = (acl.resource_type, acl.resource_name, acl.pattern_type)
        if pattern not in found:
            found[pattern] = []
            resources.append(
                DescribeAclsResource(
                    resource_type=acl.resource_type,
                    resource_name=acl.resource_name,
                    pattern_type=acl.pattern_type,
                    acls=found[pattern],
                )
            )
        found[pattern].append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
        )
    response = DescribeAclsResponse(error_code=ErrorCode.NONE, resources=resources)
    yield from pending.respond_in_steps(response, items_of(response))
