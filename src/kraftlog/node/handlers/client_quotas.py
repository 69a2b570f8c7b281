"""DescribeClientQuotas 0-1 and AlterClientQuotas 0-1.

The controller decides on changes; a broker describes the quotas of its image.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.node.handlers import forwarding
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import describe_client_quotas as describe

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.metadata.image import Image
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now

IP = "ip"
ENTITY_TYPES = ("user", "client-id", IP)
#: Match types of a filter component.
EXACT, DEFAULT, SPECIFIED = 0, 1, 2

#: Matches any name in a filter.
ANY = object()


def handle(node: ServingNode, pending: PendingResponse, request: Any, now: Now) -> None:
    assert pending.api is not None
    if pending.api.key == ApiKey.DESCRIBE_CLIENT_QUOTAS:
        pending.respond(_describe(node.image, request))
    else:
        forwarding.handle(node, pending, request, now)


def _describe(
    image: Image, request: describe.DescribeClientQuotasRequest
) -> describe.DescribeClientQuotasResponse:
    filters: dict[str, Any] = {}
    for component in request.components:
        code, why = _component_error(component, filters)
        if code:
            return describe.DescribeClientQuotasResponse(
                error_code=code, error_message=why, entries=None
            )
        is_any = component.match_type == SPECIFIED
        filters[component.entity_type] = ANY if is_any else component.match
    if IP in filters and len(filters) > 1:
        why = (
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
        return describe.DescribeClientQuotasResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message=why, entries=None
        )
    entries = [
        describe.EntryData(
            entity=[
                describe.EntityData(entity_type=kind, entity_name=name) for kind, name in entity
            ],
            values=[describe.ValueData(key=k, value=v) for k, v in values.items()],
        )
        for entity, values in image.quotas.items()
        if _matches(dict(entity), filters, strict=request.strict)
    ]
    return describe.DescribeClientQuotasResponse(
        error_code=ErrorCode.NONE, error_message="", entries=entries
    )


def _component_error(component: describe.ComponentData, so_far: dict[str, Any]) -> tuple[int, str]:
    """Error code and message of an invalid component, as in Kafka; 0 if it is valid."""
    kind, match = component.entity_type, component.match
    why = ""
    if not kind:
        why = "Invalid empty entity type."
    elif kind in so_far:
        why = f"Entity type {kind} cannot appear more than once in the filter."
    elif kind not in ENTITY_TYPES:
        return ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}"
    elif component.match_type not in {EXACT, DEFAULT, SPECIFIED}:
        why = f"Unknown match type {component.match_type}"
    elif component.match_type == EXACT and match is None:
        why = "Request specified MATCH_TYPE_EXACT, but set match string to null."
    elif component.match_type != EXACT and match is not None:
        name = "MATCH_TYPE_DEFAULT" if component.match_type == DEFAULT else "MATCH_TYPE_SPECIFIED"
        why = f"Request specified {name}, but also specified a match string."
    return (ErrorCode.INVALID_REQUEST if why else ErrorCode.NONE), why


def _matches(entity: dict[str, str | None], filters: dict[str, Any], *, strict: bool) -> bool:
    """Whether an entity matches all components and, if strict, has no others."""
    if strict and len(entity) != len(filters):
        return False
    return all(
        kind in entity and (name is ANY or entity[kind] == name) for kind, name in filters.items()
    )
