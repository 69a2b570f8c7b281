"""The administrator of settings: changes configs and feature levels at any broker.

A request is repeated until it has a response, or an error that a repetition does not change.
"""

from __future__ import annotations

from collections import deque

from kraftlog.errors import RETRIABLE
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraftlog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kraftlog_simulator.cluster.clients import RETRY_MS, Client

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.types import Now
    from kraftlog.wire.schema import Message
    from kraftlog_simulator.cluster.clients import ClientWorld

REQUEST_MS = 2000
#: Types of resources; the name of all brokers together is empty.
TOPIC, BROKER, ALL_BROKERS = 2, 4, ""
#: Operations on a config.
SET, DELETE = 0, 1
#: Kinds of changes of a feature level.
UPGRADE, SAFE_DOWNGRADE = 1, 2


class SettingsAdministrator(Client):
    """Changes are requested one after the other, in their order."""

    def __init__(self, world: ClientWorld, number: int) -> None:
        super().__init__(world, number)
        self._changes: deque[tuple[int, Message]] = deque()
        self._awaits_response = False
        self._retry_at_ms = 0

    def configure(self, resource_type: int, name: str, **configs: object) -> None:
        """Set configs of a resource, whose names have _ for .; None deletes one."""
        changes = [
            AlterableConfig(
                name=config.replace("_", "."),
                config_operation=DELETE if value is None else SET,
                value=None if value is None else str(value),
            )
            for config, value in configs.items()
        ]
        resource = AlterConfigsResource(
            resource_type=resource_type, resource_name=name, configs=changes
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        self._add(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)

    def set_level(self, feature: str, level: int, upgrade_type: int) -> None:
        """Raise or lower the level of a feature."""
        update = FeatureUpdateKey(
            feature=feature, max_version_level=level, upgrade_type=upgrade_type
        )
        request = UpdateFeaturesRequest(timeout_ms=REQUEST_MS, feature_updates=[update])
        self._add(ApiKey.UPDATE_FEATURES, request)

    def _add(self, api_key: int, request: Message) -> None:
        self._changes.append((api_key, request))
        self.take_turn()

    @property
    def is_idle(self) -> bool:
        return not self._changes

    def deadline(self) -> int | None:
        return self._retry_at_ms if self._changes and not self._awaits_response else None

    def work(self, now: Now) -> None:
        if not self._changes or self._awaits_response or self._retry_at_ms > now.monotonic_ms:
            return
        self._awaits_response = True
        api_key, request = self._changes[0]
        self.send_request(self.some_broker(), api_key, request, REQUEST_MS, self._on_response)

    def _on_response(self, response: Any, now: Now) -> None:
        self._awaits_response = False
        self._retry_at_ms = now.monotonic_ms + RETRY_MS
        if response is None:
            return
        api_key, _ = self._changes[0]
        is_configs = api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS
        code = response.responses[0].error_code if is_configs else response.error_code
        self.world.count_response("setting" if is_configs else "feature level", code)
        if code in RETRIABLE:
            return
        self._changes.popleft()  # also if it was refused, as when its topic was deleted
        self.world.progress += 1
