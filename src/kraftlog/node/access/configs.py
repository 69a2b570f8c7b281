"""Requests about the configs of resources of several types."""

from __future__ import annotations

from importlib import import_module

from kraftlog.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.node.access.asked import Asked

#: Types of resources that have configs, what an ACL names for each, and the error without one.
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
_CLUSTER = (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
_KINDS = {
    TOPIC: (ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    GROUP: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    BROKER: _CLUSTER,
    LOGGER: _CLUSTER,
    CLIENT_METRICS: _CLUSTER,
}


def describe_configs(asked: Asked) -> bool:
    from kraftlog.wire.messages.describe_configs import DescribeConfigsResult

    def refused(resource: Any) -> Any:
        return DescribeConfigsResult(configs=(), **_error(resource))

    return asked.split("resources", _allowed(asked, Operation.DESCRIBE_CONFIGS), "results", refused)


def alter_configs(asked: Asked) -> bool:
    assert asked.pending.api is not None
    api: Any = import_module(f"kraftlog.wire.messages.{asked.pending.api.module}")

    def refused(resource: Any) -> Any:
        return api.AlterConfigsResourceResponse(**_error(resource))

    return asked.split("resources", _allowed(asked, Operation.ALTER_CONFIGS), "responses", refused)


def _allowed(asked: Asked, operation: int) -> Any:
    def is_allowed(resource: Any) -> bool:
        kind = _KINDS.get(resource.resource_type)
        if kind is None:
            return True  # the handler refuses it
        name = CLUSTER_NAME if kind is _CLUSTER else resource.resource_name
        return asked.allows(operation, kind[0], name)

    return is_allowed


def _error(resource: Any) -> dict[str, Any]:
    return {
        "error_code": _KINDS[resource.resource_type][1],
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }
