"""DescribeAcls: the ACLs that match a filter."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int8, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class DescribeAclsRequest(Message, versions=(1, 3), flexible=2):
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable=True)
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable=True)
    host_filter: str | None = string(nullable=True)
    operation: int = int8()
    permission_type: int = int8()


class AclDescription(Message):
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DescribeAclsResource(Message):
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    acls: Sequence[AclDescription] = array(AclDescription)


class DescribeAclsResponse(Message, versions=(1, 3), flexible=2):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    resources: Sequence[DescribeAclsResource] = array(DescribeAclsResource)
