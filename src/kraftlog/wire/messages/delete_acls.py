"""DeleteAcls: delete the ACLs that match filters."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int8, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class DeleteAclsFilter(Message):
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable=True)
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable=True)
    host_filter: str | None = string(nullable=True)
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsRequest(Message, versions=(1, 3), flexible=2):
    filters: Sequence[DeleteAclsFilter] = array(DeleteAclsFilter)


class DeleteAclsMatchingAcl(Message):
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsFilterResult(Message):
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    matching_acls: Sequence[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


class DeleteAclsResponse(Message, versions=(1, 3), flexible=2):
    throttle_time_ms: int = int32(default=0)
    filter_results: Sequence[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
