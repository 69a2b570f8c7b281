"""Describes, adds and removes ACLs."""

from __future__ import annotations

from kraftlog.authorization.acls import (
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    RESOURCE_TYPES,
    AclFilter,
)
from kraftlog.client.cluster import CONTROLLER
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import create_acls as creation
from kraftlog.wire.messages import delete_acls as deletion
from kraftlog.wire.messages import describe_acls as description

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, NamedTuple

    from kraftlog.client.cluster import Cluster, ErrorContext
else:
    from typing import NamedTuple


class Pattern(NamedTuple):
    """The resources that an ACL is about, printed as Kafka's tools do."""

    resource_type: int
    name: str | None
    pattern_type: int

    def __str__(self) -> str:
        name = "<any>" if self.name is None else self.name
        kind = _name(RESOURCE_TYPES, self.resource_type)
        pattern = _name(PATTERN_TYPES, self.pattern_type)
        return f"ResourcePattern(resourceType={kind}, name={name}, patternType={pattern})"


class Entry(NamedTuple):
    """What an ACL says about them."""

    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        operation = _name(OPERATIONS, self.operation)
        permission = _name(PERMISSIONS, self.permission)
        return (
            f"(principal={self.principal}, host={self.host}, operation={operation}, "
            f"permissionType={permission})"
        )


def _name(names: dict[int, str], number: int) -> str:
    return names.get(number, "UNKNOWN")


def filter_by(pattern: Pattern, entry: Entry | None = None) -> AclFilter:
    """The filter for a pattern, and for all that is said about it or one thing."""
    condition = AclFilter(
        resource_type=pattern.resource_type, name=pattern.name, pattern_type=pattern.pattern_type
    )
    if entry is None:
        return condition
    return condition.replace(
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission=entry.permission,
    )


def describe(cluster: Cluster, condition: AclFilter) -> dict[Pattern, list[Entry]]:
    """The ACLs that match, as the node that is asked knows them."""

    def check(response: description.DescribeAclsResponse, context: ErrorContext) -> None:
        context.check(response.error_code, message=response.error_message)

    request = description.DescribeAclsRequest(**_fields(condition))
    response = cluster.call(request, description.DescribeAclsResponse, check=check)
    return {
        Pattern(each.resource_type, each.resource_name, each.pattern_type): [
            Entry(acl.principal, acl.host, acl.operation, acl.permission_type) for acl in each.acls
        ]
        for each in response.resources
    }


def create(cluster: Cluster, pattern: Pattern, entries: Iterable[Entry]) -> None:
    """Add ACLs; those that exist stay."""
    creations = [
        creation.AclCreation(
            resource_type=pattern.resource_type,
            resource_name=pattern.name or "",
            resource_pattern_type=pattern.pattern_type,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission,
        )
        for entry in entries
    ]

    def check(response: creation.CreateAclsResponse, context: ErrorContext) -> None:
        for result in response.results:
            context.check(result.error_code, str(pattern), result.error_message)

    request = creation.CreateAclsRequest(creations=creations)
    cluster.call(request, creation.CreateAclsResponse, broker=CONTROLLER, check=check)


def delete(cluster: Cluster, conditions: Sequence[AclFilter]) -> None:
    """Remove what matches any of these conditions."""
    filters = [deletion.DeleteAclsFilter(**_fields(each)) for each in conditions]

    def check(response: deletion.DeleteAclsResponse, context: ErrorContext) -> None:
        for result in response.filter_results:
            context.check(result.error_code, message=result.error_message)

    request = deletion.DeleteAclsRequest(filters=filters)
    cluster.call(request, deletion.DeleteAclsResponse, broker=CONTROLLER, check=check)


def _fields(condition: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": condition.resource_type,
        "resource_name_filter": condition.name,
        "pattern_type_filter": condition.pattern_type,
        "principal_filter": condition.principal,
        "host_filter": condition.host,
        "operation": condition.operation,
        "permission_type": condition.permission,
    }
