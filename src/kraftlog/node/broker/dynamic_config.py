"""`DynamicConfig`: the settings of this broker, static and dynamic."""

from __future__ import annotations

from kraftlog.config.keys import BROKER
from kraftlog.config.layers import ConfigLayers
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.metadata.loader import MetadataLoader


class DynamicConfig:
    """Recomputes the layers only when the image has other configs for this broker."""

    def __init__(self, metadata: MetadataLoader, broker_id: int, static: Mapping[str, str]) -> None:
        self._metadata = metadata
        self._broker = str(broker_id)
        self._static = static
        self._layers = ConfigLayers(static)

    def layers(self) -> ConfigLayers:
        image = self._metadata.image
        for_all, for_broker = image.config(BROKER, ""), image.config(BROKER, self._broker)
        if (self._layers.all_brokers, self._layers.broker) != (for_all, for_broker):
            self._layers = ConfigLayers(self._static, for_all, for_broker)
        return self._layers
