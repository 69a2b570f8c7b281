"""DescribeConfigs 1-4: configs of topics, brokers, groups and client metrics, with sources."""

from __future__ import annotations

from kraftlog.config import describe
from kraftlog.config.keys import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraftlog.errors import ErrorCode
from kraftlog.node.handlers.consistency import linearizable_on_request
from kraftlog.steps import drained
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import describe_configs as api

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.config.describe import DescribedConfig
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now

#: Costs in microseconds: a resource, and one of its entries.
RESOURCE_COST = 10
ENTRY_COST = 8


@linearizable_on_request
def handle(
    node: ServingNode,
    pending: PendingResponse,
    request: api.DescribeConfigsRequest,
    now: Now,  # noqa: ARG001 - interface of handlers
) -> Iterator[int]:
    results = []
    item_count = 0
    described: set[tuple[int, str, tuple[str, ...] | None]] = set()
    for resource in drained(request.resources):
        keys = resource.configuration_keys
        key = (
            resource.resource_type,
            resource.resource_name,
            None if keys is None else tuple(keys),
        )
        if key in described:
            yield 1  # a duplicate: the response would be much larger than the request
            continue
        described.add(key)
        result = _resource(node, resource, request)
        results.append(result)
        item_count += 1 + len(result.configs)
        yield RESOURCE_COST + ENTRY_COST * len(result.configs)
    yield from pending.respond_in_steps(api.DescribeConfigsResponse(results=results), item_count)


def _resource(
    node: ServingNode, resource: api.DescribeConfigsResource, request: api.DescribeConfigsRequest
) -> api.DescribeConfigsResult:
    configs = _configs_or_error(node, resource)
    if isinstance(configs, tuple):
        code, message = configs
        return api.DescribeConfigsResult(
            error_code=code,
            error_message=message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=(),
        )
    return api.DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_entry(entry, request) for entry in configs],
    )


def _configs_or_error(
    node: ServingNode, resource: api.DescribeConfigsResource
) -> list[DescribedConfig] | tuple[int, str]:
    """The configs of a resource, or an error code and message."""
    image, name = node.image, resource.resource_name
    names = resource.configuration_keys or None  # an empty list means all, like null
    kind = resource.resource_type
    if kind == TOPIC:
        if name not in image.topic_ids:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name}."
        return describe.describe_topic(image.config(TOPIC, name), node.config_layers(), names)
    if kind == BROKER:
        if not name:
            return describe.describe_all_brokers(image.config(BROKER, ""), names)
        if name != str(node.config.node_id):
            why = f"Unexpected broker id, expected {node.config.node_id} or empty, but got {name}"
            return ErrorCode.INVALID_REQUEST, why
        return describe.describe_broker(node.config_layers(), names)
    if kind == GROUP:
        return describe.describe_group(image.config(GROUP, name), node.config_layers(), names)
    if kind == CLIENT_METRICS:
        return describe.describe_client_metrics(image.config(CLIENT_METRICS, name), names)
    return ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}"


def _entry(
    entry: DescribedConfig, request: api.DescribeConfigsRequest
) -> api.DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return api.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.config_source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            api.DescribeConfigsSynonym(name=it.name, value=it.value, source=it.source)
            for it in synonyms
        ],
        config_type=entry.config_type,
        documentation=entry.documentation if request.include_documentation else None,
    )
