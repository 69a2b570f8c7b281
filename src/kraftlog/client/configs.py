"""Describes and alters configs of all resource types; lists the resources that have configs."""

from __future__ import annotations

from kraftlog.client.cluster import ANY, CONTROLLER
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.messages import (
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraftlog.client.cluster import Cluster, ErrorContext

    #: A config value as callers write it.
    ConfigValue = str | int | float | bool

#: Resource types of the protocol.
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
#: Resource types by their names in kafka-configs.
RESOURCE_TYPES = {
    "topics": TOPIC,
    "brokers": BROKER,
    "broker-loggers": BROKER_LOGGER,
    "client-metrics": CLIENT_METRICS,
    "groups": GROUP,
}


def resource_type_of(name: str) -> int:
    """The number of a resource type, by its plural or singular name."""
    number = RESOURCE_TYPES.get(name, RESOURCE_TYPES.get(f"{name}s"))
    if number is None:
        raise ValueError(f"kind {name!r}: expected one of {', '.join(RESOURCE_TYPES)}")
    return number


def text_of(value: ConfigValue) -> str:
    """A config value in Kafka's text form."""
    return str(value).lower() if isinstance(value, bool) else str(value)


#: Config sources by their number in the protocol, as Kafka's tools print them.
SOURCES = (
    "UNKNOWN",
    "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG",
    "DEFAULT_CONFIG",
    "DYNAMIC_BROKER_LOGGER_CONFIG",
    "DYNAMIC_CLIENT_METRICS_CONFIG",
    "DYNAMIC_GROUP_CONFIG",
)
#: The dynamic sources of each resource type.
_DYNAMIC = {
    TOPIC: ("DYNAMIC_TOPIC_CONFIG",),
    BROKER: ("DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
    BROKER_LOGGER: ("DYNAMIC_BROKER_LOGGER_CONFIG",),
    CLIENT_METRICS: ("DYNAMIC_CLIENT_METRICS_CONFIG",),
    GROUP: ("DYNAMIC_GROUP_CONFIG",),
}
#: Operations of IncrementalAlterConfigs.
SET, DELETE, APPEND, SUBTRACT = range(4)


class Setting(Value):
    """A described config; `synonyms` are (source, name, value) in order of precedence."""

    name: str
    value: str | None
    source: str
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[tuple[str, str, str | None], ...]


def _source(number: int) -> str:
    return SOURCES[number] if 0 <= number < len(SOURCES) else SOURCES[0]


def is_set_dynamically(resource_type: int, setting: Setting) -> bool:
    """Whether a config is set dynamically on this type of resource, not by default or in a file."""
    return setting.source in _DYNAMIC[resource_type]


def _broker(cluster: Cluster, resource_type: int, name: str) -> int:
    """The target of a request: a broker describes and alters its own configs."""
    if resource_type not in {BROKER, BROKER_LOGGER} or not name or cluster.is_controllers:
        return ANY
    if not name.isdecimal():
        raise ValueError(f"broker {name!r}: expected its number")
    return int(name)


def describe(
    cluster: Cluster, resource_type: int, names: Sequence[str], *, linearizable: bool = False
) -> dict[str, list[Setting]]:
    """All configs of these resources by name; "" names the default of all brokers."""
    settings: dict[str, list[Setting]] = {}
    for name in names:
        resource = describe_configs.DescribeConfigsResource(
            resource_type=resource_type, resource_name=name, configuration_keys=None
        )

        def check(
            response: describe_configs.DescribeConfigsResponse, context: ErrorContext
        ) -> None:
            for result in response.results:
                subject = f"{_type_name(result.resource_type)} {result.resource_name}".rstrip()
                context.check(result.error_code, subject, result.error_message)

        response = cluster.call(
            describe_configs.DescribeConfigsRequest(
                resources=[resource], include_synonyms=True, linearizable=linearizable
            ),
            describe_configs.DescribeConfigsResponse,
            broker=_broker(cluster, resource_type, name),
            check=check,
        )
        settings[name] = [_setting(each) for result in response.results for each in result.configs]
    return settings


def _setting(result: describe_configs.DescribeConfigsResourceResult) -> Setting:
    synonyms = tuple((_source(each.source), each.name, each.value) for each in result.synonyms)
    return Setting(
        result.name,
        result.value,
        _source(result.config_source),
        result.read_only,
        result.is_sensitive,
        synonyms,
    )


def alter(
    cluster: Cluster,
    resource_type: int,
    name: str,
    changes: Mapping[str, ConfigValue | None],
    *,
    operation: int = SET,
    validate_only: bool = False,
) -> None:
    """Set configs; None deletes one. APPEND and SUBTRACT apply to lists."""
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[
            incremental_alter_configs.AlterableConfig(
                name=key,
                config_operation=DELETE if value is None else operation,
                value=None if value is None else text_of(value),
            )
            for key, value in changes.items()
        ],
    )

    def check(
        response: incremental_alter_configs.IncrementalAlterConfigsResponse, context: ErrorContext
    ) -> None:
        for result in response.responses:
            context.check(
                result.error_code,
                f"{_type_name(resource_type)} {name}".rstrip(),
                result.error_message,
            )

    broker = _broker(cluster, resource_type, name)
    cluster.call(
        incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[resource], validate_only=validate_only
        ),
        incremental_alter_configs.IncrementalAlterConfigsResponse,
        broker=CONTROLLER if broker == ANY else broker,
        check=check,
    )


def resources_with_configs(
    cluster: Cluster, resource_type: int, *, linearizable: bool = False
) -> list[str]:
    """The groups or client metrics that have configs; of other types, all resources, by name."""

    def check(
        response: list_config_resources.ListConfigResourcesResponse, context: ErrorContext
    ) -> None:
        context.check(response.error_code)

    response = cluster.call(
        list_config_resources.ListConfigResourcesRequest(
            resource_types=[resource_type], linearizable=linearizable
        ),
        list_config_resources.ListConfigResourcesResponse,
        check=check,
    )
    return sorted(
        each.resource_name
        for each in response.config_resources
        if each.resource_type == resource_type
    )


def _type_name(resource_type: int) -> str:
    names = {number: name[:-1] for name, number in RESOURCE_TYPES.items()}
    return names.get(resource_type, str(resource_type))
