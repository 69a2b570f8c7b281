"""IncrementalAlterConfigs and AlterConfigs."""

from __future__ import annotations

from kraftlog.config.checks import combination_error, config_error, default, is_list
from kraftlog.config.describe import describe_topic
from kraftlog.config.keys import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kraftlog.config.layers import ConfigLayers
from kraftlog.controller.decision import (
    RECORDS_IN_BATCH,
    TOO_LARGE,
    Decision,
    Refusal,
    count_names,
)
from kraftlog.controller.eligible_replicas import change_min_isr
from kraftlog.controller.state import ALL_BROKERS, MIN_ISR
from kraftlog.errors import ErrorCode
from kraftlog.types import METADATA_TOPIC
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages import alter_configs, incremental_alter_configs
from kraftlog.wire.messages.create_topics import CreatableTopicConfigs
from kraftlog.wire.messages.metadata_records import ConfigRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from typing import Any, TypeVar

    from kraftlog.controller.context import Context
    from kraftlog.controller.decision import DecisionInSteps
    from kraftlog.controller.state import ControllerState
    from kraftlog.wire.messages.create_topics import CreatableTopic
    from kraftlog.wire.schema import Message

    R = TypeVar("R")

#: Operations of an incremental change.
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
_OPERATION_NAMES = {APPEND: "APPEND", SUBTRACT: "SUBTRACT"}

_TYPES = (TOPIC, BROKER, CLIENT_METRICS, GROUP)

MAX_VALUE_BYTES = 32767
#: Cost of a resource, in microseconds.
RESOURCE_COST = 15


def decide_incremental_alter_configs(
    state: ControllerState,
    request: incremental_alter_configs.IncrementalAlterConfigsRequest,
    context: Context,
) -> DecisionInSteps:
    """IncrementalAlterConfigs; each resource succeeds or fails as a whole."""

    def new_values(resource: incremental_alter_configs.AlterConfigsResource) -> _Values | Refusal:
        return _incremental(state, resource)

    response_type = incremental_alter_configs.AlterConfigsResourceResponse
    records, responses = yield from _alter(
        state, request.resources, new_values, context, response_type
    )
    response = incremental_alter_configs.IncrementalAlterConfigsResponse(responses=responses)
    return Decision([] if request.validate_only else records, response)


def decide_alter_configs(
    state: ControllerState, request: alter_configs.AlterConfigsRequest, context: Context
) -> DecisionInSteps:
    """AlterConfigs; configs that are not named return to their defaults."""

    def new_values(resource: alter_configs.AlterConfigsResource) -> _Values | Refusal:
        unset = [config.name for config in resource.configs if config.value is None]
        if unset:
            why = f"Null value not supported for : {','.join(unset)}"
            return Refusal(ErrorCode.INVALID_REQUEST, why)
        current = state.config(resource.resource_type, resource.resource_name)
        values: _Values = dict.fromkeys(current)
        named = {config.name: config.value for config in resource.configs}
        return {**named, **{key: None for key in values if key not in named}}

    response_type = alter_configs.AlterConfigsResourceResponse
    records, responses = yield from _alter(
        state, request.resources, new_values, context, response_type
    )
    response = alter_configs.AlterConfigsResponse(responses=responses)
    return Decision([] if request.validate_only else records, response)


#: New values by key; None deletes the config.
_Values = dict[str, "str | None"]


def _alter(
    state: ControllerState,
    resources: Sequence[Any],
    new_values: Callable[[Any], _Values | Refusal],
    context: Context,
    response_type: Callable[..., R],
) -> Generator[int, None, tuple[list[Message], list[R]]]:
    """The records, and the response for each resource.

    `new_values` returns the configs of a resource that change.
    """
    counts = yield from count_names(
        (resource.resource_type, resource.resource_name) for resource in resources
    )
    records: list[ConfigRecord] = []
    responses = []
    for resource in resources:
        key = resource.resource_type, resource.resource_name
        outcome: list[ConfigRecord] | Refusal
        if counts.get(key, 1) > 1:
            outcome = Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        else:
            counts.pop(key, None)
            refusal = None if _deletes_nothing(resource) else _refuse_resource(state, *key)
            values = refusal or new_values(resource)
            outcome = (
                values if isinstance(values, Refusal) else _records(state, key, values, context)
            )
        if not isinstance(outcome, Refusal) and len(records) + len(outcome) > RECORDS_IN_BATCH:
            outcome = TOO_LARGE
        refusal = outcome if isinstance(outcome, Refusal) else None
        responses.append(
            response_type(
                error_code=refusal.code if refusal else ErrorCode.NONE,
                error_message=refusal.message if refusal else None,
                resource_type=key[0],
                resource_name=key[1],
            )
        )
        if not isinstance(outcome, Refusal):
            records += outcome
        yield RESOURCE_COST
    min_isrs = {
        (each.resource_type, each.resource_name): each.value
        for each in records
        if each.name == MIN_ISR
    }
    cleared: list[Message] = []
    if min_isrs and state.elr_enabled:
        cleared = yield from change_min_isr(state, min_isrs)
    return [*records, *cleared], responses


def _deletes_nothing(resource: Any) -> bool:
    """Whether a change only deletes configs of the metadata topic, which has none.

    Kafka's tool for reassignments deletes the throttles of each topic in its file.
    """
    if (resource.resource_type, resource.resource_name) != (TOPIC, METADATA_TOPIC):
        return False
    operations = [getattr(each, "config_operation", SET) for each in resource.configs]
    return bool(operations) and all(each == DELETE for each in operations)


def _refuse_resource(state: ControllerState, resource_type: int, name: str) -> Refusal | None:
    if resource_type not in _TYPES:
        why = f"Unexpected resource type {resource_type}."
        return Refusal(ErrorCode.INVALID_REQUEST, why)
    if resource_type == TOPIC and name not in state.topic_ids:
        why = f"The topic '{name}' does not exist."
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
    if resource_type == BROKER and name != ALL_BROKERS:
        if not name.isdecimal():
            why = f"Unable to parse broker name as a base 10 number: {name!r}"
            return Refusal(ErrorCode.INVALID_REQUEST, why)
        if int(name) not in state.brokers and int(name) not in state.controllers:
            why = f"No node with id {name} found."
            return Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, why)
    return None


def _incremental(
    state: ControllerState, resource: incremental_alter_configs.AlterConfigsResource
) -> _Values | Refusal:
    """The new values, by the operations of a request."""
    current = state.config(resource.resource_type, resource.resource_name)
    values: _Values = {}
    for config in resource.configs:
        key, operation = config.name, config.config_operation
        if key in values:
            why = f"Error due to duplicate config keys: {key}"
            return Refusal(ErrorCode.INVALID_REQUEST, why)
        if operation == DELETE:
            values[key] = None
        elif config.value is None:
            why = f"Null value not supported for : {key}"
            return Refusal(ErrorCode.INVALID_REQUEST, why)
        elif operation == SET:
            values[key] = config.value
        elif operation not in _OPERATION_NAMES:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown operation {operation}.")
        elif not is_list(resource.resource_type, key):
            why = f"Can't {_OPERATION_NAMES[operation]} to key {key} because its type is not LIST."
            return Refusal(ErrorCode.INVALID_CONFIG, why)
        else:
            before = current.get(key, default(resource.resource_type, key) or "")
            values[key] = _edited_list(before, operation, config.value)
    return values


def _edited_list(value: str, operation: int, given: str) -> str:
    """A list with the given elements appended or removed."""
    parts = [part for part in value.split(",") if part]
    if operation == APPEND:
        parts += [part for part in dict.fromkeys(given.split(",")) if part not in parts]
    else:
        removed = given.split(",")
        parts = [part for part in parts if part not in removed]
    return ",".join(parts)


def _records(
    state: ControllerState, resource: tuple[int, str], values: _Values, context: Context
) -> list[ConfigRecord] | Refusal:
    """The changes as records, if the resulting configs are valid."""
    resource_type, name = resource
    refusal = _refuse_min_isr(resource, values) if state.elr_enabled else None
    current = state.config(*resource)
    after = {**current, **values}
    resulting = {key: value for key, value in after.items() if value is not None}
    refusal = refusal or check_configs(state, resource, resulting, context)
    if refusal is not None:
        return refusal
    return [
        ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
        for key, value in values.items()
        # Setting the same value again makes a broker reload files that the value names.
        if resource_type == BROKER or current.get(key) != value
    ]


def _refuse_min_isr(resource: tuple[int, str], values: Mapping[str, str | None]) -> Refusal | None:
    """With ELR enabled, min.insync.replicas is set for the cluster, not per broker."""
    if resource[0] != BROKER or MIN_ISR not in values:
        return None
    if resource[1] != ALL_BROKERS:
        why = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        return Refusal(ErrorCode.INVALID_CONFIG, why)
    if values[MIN_ISR] is None:
        why = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        return Refusal(ErrorCode.INVALID_CONFIG, why)
    return None


def check_configs(
    state: ControllerState, resource: tuple[int, str], values: Mapping[str, str], context: Context
) -> Refusal | None:
    """Refuse invalid configs of a resource; None if all are valid."""
    if not values:
        return None
    error = None
    for key, value in values.items():
        # Kafka counts characters here, and fails to write a record with more bytes.
        if len(value) > MAX_VALUE_BYTES or len(value.encode()) > MAX_VALUE_BYTES:
            error = (
                "The configuration value cannot be added because it exceeds the maximum value "
                f"size of {MAX_VALUE_BYTES} bytes."
            )
        error = error or config_error(resource[0], key, value)
    error = error or combination_error(*resource, values, _layers(state, context))
    return None if error is None else Refusal(ErrorCode.INVALID_CONFIG, error)


def _layers(state: ControllerState, context: Context) -> ConfigLayers:
    """The defaults of topic configs, as if all brokers had the same file as this node."""
    cluster_wide = state.config(BROKER, ALL_BROKERS)
    if context.layers.all_brokers != cluster_wide:
        context.layers = ConfigLayers(context.static_config, cluster_wide)
    return context.layers


def described_configs(
    state: ControllerState, topic: CreatableTopic, context: Context
) -> list[CreatableTopicConfigs]:
    """All configs of a new topic with their sources."""
    own = {config.name: config.value or "" for config in topic.configs}
    return [
        CreatableTopicConfigs(
            name=each.name,
            value=each.value,
            read_only=each.read_only,
            config_source=each.config_source,
            is_sensitive=each.is_sensitive,
        )
        for each in describe_topic(own, _layers(state, context))
    ]
