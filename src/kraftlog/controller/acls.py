"""CreateAcls and DeleteAcls."""

from __future__ import annotations

from kraftlog.authorization.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    RESOURCE_TYPES,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    acl_key,
    filter_of,
)
from kraftlog.authorization.hosts import network_of
from kraftlog.controller.decision import RECORDS_IN_BATCH, TOO_LARGE, Decision, Refusal
from kraftlog.errors import ErrorCode
from kraftlog.metadata.snapshot import METADATA_VERSION
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.create_acls import AclCreationResult, CreateAclsResponse
from kraftlog.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from kraftlog.wire.messages.metadata_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Sequence

    from kraftlog.authorization.acls import AclFilter
    from kraftlog.controller.context import Context
    from kraftlog.controller.decision import DecisionInSteps
    from kraftlog.controller.state import ControllerState
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.create_acls import AclCreation, CreateAclsRequest
    from kraftlog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
    from kraftlog.wire.schema import Message

#: The first metadata.version at which a host may be a network (4.4-IV1).
NETWORKS_SINCE = 32
#: Costs in microseconds: an ACL to create or to delete, and those that are compared at once.
CREATION_COST, DELETION_COST, COMPARED_AT_ONCE, COMPARING_COST = 10, 5, 200, 200
#: A request is refused that would have more ACLs than this compared with its filters.
MAX_COMPARED = 200_000

NO_AUTHORIZER = Refusal(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
TOO_MANY_DELETED = Refusal(
    ErrorCode.INVALID_REQUEST,
    f"Cannot remove more than {RECORDS_IN_BATCH} acls in a single delete operation.",
)
TOO_MANY_COMPARED = Refusal(
    ErrorCode.INVALID_REQUEST, "Too many filters that match names or leave them open."
)


# Creating ----------------------------------------------------------------------------------------


def decide_create_acls(
    state: ControllerState, request: CreateAclsRequest, context: Context
) -> DecisionInSteps:
    """Each ACL succeeds or fails alone; one that exists succeeds without a record."""
    creations = request.creations
    if not context.config.has_authorizer:
        return Decision([], _all_refused(creations, NO_AUTHORIZER))
    results: list[AclCreationResult] = []
    records: dict[tuple[object, ...], Message] = {}
    level = state.features.get(METADATA_VERSION, 0)
    for creation in creations:
        yield CREATION_COST
        outcome = _refusal(creation, level)
        if outcome is not None:
            results.append(_result(outcome))
            continue
        results.append(AclCreationResult(error_code=ErrorCode.NONE))
        record = _record(creation, context.new_id())
        key = acl_key(record)
        if key not in state.acl_ids:
            records.setdefault(key, record)
    if len(records) > RECORDS_IN_BATCH:
        return Decision([], _all_refused(creations, TOO_LARGE))
    return Decision(list(records.values()), CreateAclsResponse(results=results))


def _all_refused(creations: Sequence[AclCreation], refusal: Refusal) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_result(refusal)] * len(creations))


def _result(refusal: Refusal) -> AclCreationResult:
    return AclCreationResult(error_code=refusal.code, error_message=refusal.message)


def _record(creation: AclCreation, acl_id: Uuid) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=creation.resource_type,
        resource_name=creation.resource_name,
        pattern_type=creation.resource_pattern_type,
        principal=creation.principal,
        host=creation.host,
        operation=creation.operation,
        permission_type=creation.permission_type,
    )


def _refusal(creation: AclCreation, level: int) -> Refusal | None:
    """Why an ACL is not valid, in Kafka's words and order."""
    reason = _invalid_part(creation)
    if not reason and "/" in creation.host and level < NETWORKS_SINCE:
        return Refusal(
            ErrorCode.UNSUPPORTED_VERSION,
            "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.",
        )
    reason = reason or _invalid_host(creation.host)
    return Refusal(ErrorCode.INVALID_REQUEST, reason) if reason else None


def _invalid_part(creation: AclCreation) -> str:
    kind = creation.resource_type
    if kind == ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not creation.resource_name:
        return "Invalid empty resource name"
    for what, number, names, filters in (
        ("resourceType", kind, RESOURCE_TYPES, {ResourceType.ANY}),
        (
            "patternType",
            creation.resource_pattern_type,
            PATTERN_TYPES,
            {PatternType.ANY, PatternType.MATCH},
        ),
        ("operation", creation.operation, OPERATIONS, {Operation.ANY}),
        ("permissionType", creation.permission_type, PERMISSIONS, {Permission.ANY}),
    ):
        if number not in names or number in filters:
            return f"Invalid {what} {names.get(number, 'UNKNOWN')}"
    if ":" not in creation.principal:
        return (
            f"Could not parse principal from `{creation.principal}` (no colon is present "
            "separating the principal type from the principal name)"
        )
    return ""


def _invalid_host(host: str) -> str:
    if not host:
        return "Host pattern cannot be null or empty"
    if "/" in host and network_of(host) is None:
        return f"Invalid CIDR notation '{host}': Could not parse [{host}]"
    return ""


# Deleting ----------------------------------------------------------------------------------------


def decide_delete_acls(
    state: ControllerState, request: DeleteAclsRequest, context: Context
) -> DecisionInSteps:
    """Delete what matches any of the filters, all of it or nothing."""
    filters = request.filters
    if not context.config.has_authorizer:
        return Decision([], _refused(filters, NO_AUTHORIZER))
    search = _Search(state)
    records: dict[Uuid, Message] = {}
    results: list[DeleteAclsFilterResult] = []
    for each in filters:
        condition = filter_of(each)
        if condition.unknown:
            refusal = Refusal(ErrorCode.INVALID_REQUEST, condition.unknown)
            results += _refused([each], refusal).filter_results
            continue
        matching: list[DeleteAclsMatchingAcl] = []
        results.append(DeleteAclsFilterResult(error_code=ErrorCode.NONE, matching_acls=matching))
        for acl in (yield from search.matching(condition)):
            yield DELETION_COST
            matching.append(_described(acl))
            records[acl.id] = RemoveAccessControlEntryRecord(id=acl.id)
            if len(records) > RECORDS_IN_BATCH:
                return Decision([], _refused(filters, TOO_MANY_DELETED))
        if search.compared > MAX_COMPARED:
            return Decision([], _refused(filters, TOO_MANY_COMPARED))
    return Decision(list(records.values()), DeleteAclsResponse(filter_results=results))


def _refused(filters: Sequence[DeleteAclsFilter], refusal: Refusal) -> DeleteAclsResponse:
    result = DeleteAclsFilterResult(
        error_code=refusal.code, error_message=refusal.message, matching_acls=()
    )
    return DeleteAclsResponse(filter_results=[result] * len(filters))


class _Search:
    """Finds what matches the filters of one request; most filters have a name."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state
        self._by_name: dict[str, list[AccessControlEntryRecord]] = {}
        #: How many ACLs were compared with a filter.
        self.compared = 0

    def matching(
        self, condition: AclFilter
    ) -> Generator[int, None, Sequence[AccessControlEntryRecord]]:
        key, name = condition.key, condition.name
        if key is not None:
            acl_id = self._state.acl_ids.get(key)
            return () if acl_id is None else (self._state.acls[acl_id],)
        acls: Collection[AccessControlEntryRecord] = self._state.acls.values()
        if name is not None and condition.pattern_type != PatternType.MATCH:
            yield from self._index()
            acls = self._by_name.get(name, ())
        found = []
        self.compared += len(acls)
        for number, acl in enumerate(acls, 1):
            if condition.matches(acl):
                found.append(acl)
            if not number % COMPARED_AT_ONCE:
                yield COMPARING_COST
        return found

    def _index(self) -> Iterator[int]:
        if self._by_name:
            return
        for number, acl in enumerate(self._state.acls.values(), 1):
            self._by_name.setdefault(acl.resource_name, []).append(acl)
            if not number % COMPARED_AT_ONCE:
                yield COMPARING_COST


def _described(acl: AccessControlEntryRecord) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
