"""CreateAcls: add ACLs."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int8, int16, int32, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class AclCreation(Message):
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class CreateAclsRequest(Message, versions=(1, 3), flexible=2):
    creations: Sequence[AclCreation] = array(AclCreation)


class AclCreationResult(Message):
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


class CreateAclsResponse(Message, versions=(1, 3), flexible=2):
    throttle_time_ms: int = int32(default=0)
    results: Sequence[AclCreationResult] = array(AclCreationResult)
