"""ListConfigResources 0-1: resources that can have configs; version 0: only client metrics."""

from __future__ import annotations

from kraftlog.config.keys import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraftlog.errors import ErrorCode
from kraftlog.node.handlers.consistency import linearizable_on_request
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import list_config_resources as api

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now

#: Broker loggers exist, but have no dynamic levels here.
BROKER_LOGGER = 8
ALL = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


@linearizable_on_request  # if the request's field `linearizable` is set
def handle(
    node: ServingNode,
    pending: PendingResponse,
    request: api.ListConfigResourcesRequest,
    now: Now,  # noqa: ARG001 - interface of handlers
) -> None:
    kinds = [CLIENT_METRICS] if pending.version == 0 else list(request.resource_types) or list(ALL)
    if not set(kinds) <= set(ALL):
        code = ErrorCode.UNSUPPORTED_VERSION
        pending.respond(api.ListConfigResourcesResponse(error_code=code, config_resources=()))
        return
    resources = [
        api.ConfigResource(resource_name=name, resource_type=kind)
        for kind in kinds
        for name in _names(node, kind)
    ]
    pending.respond(
        api.ListConfigResourcesResponse(error_code=ErrorCode.NONE, config_resources=resources)
    )


def _names(node: ServingNode, kind: int) -> Iterable[str]:
    image = node.image
    if kind == TOPIC:
        return sorted(image.topic_ids)
    if kind in {BROKER, BROKER_LOGGER}:
        return [str(broker_id) for broker_id in sorted(image.brokers)]
    return sorted(name for configured_kind, name in image.configs if configured_kind == kind)
