"""`TopicConfig`: the effective configs of a topic."""

from __future__ import annotations

from kraftlog.config.keys import TOPIC_KEYS
from kraftlog.config.setting import setting
from kraftlog.config.values import parse_value
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from kraftlog.config.layers import ConfigLayers


class TopicConfig:
    """Settings by their keys: `config["retention.ms"]`, `config.retention_ms`.

    The topic's own value takes precedence over the broker's, then the default. Values are parsed on
    first use and cached: after a change of any layer create a new object.
    """

    __slots__ = ("_layers", "_own", "_values")

    def __init__(self, own: Mapping[str, str], layers: ConfigLayers) -> None:
        self._own = own
        self._layers = layers
        self._values: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            key = TOPIC_KEYS.find(name)
            if key is None:
                raise KeyError(name)
            own = self._own.get(name)
            self._values[name] = (
                self._layers.inherited_value(key) if own is None else parse_value(key, own)
            )
        return self._values[name]

    batch_validation: str = setting()
    cleanup_policy: list[str] = setting()
    compression_gzip_level: int = setting()
    compression_lz4_level: int = setting()
    compression_type: str = setting()
    compression_zstd_level: int = setting()
    delete_retention_ms: int = setting()
    flush_messages: int = setting()
    index_interval_bytes: int = setting()
    max_compaction_lag_ms: int = setting()
    max_message_bytes: int = setting()
    message_timestamp_after_max_ms: int = setting()
    message_timestamp_before_max_ms: int = setting()
    message_timestamp_type: str = setting()
    min_cleanable_dirty_ratio: float = setting()
    min_compaction_lag_ms: int = setting()
    min_insync_replicas: int = setting()
    preallocate: bool = setting()
    retention_bytes: int = setting()
    retention_ms: int = setting()
    segment_index_bytes: int = setting()
    segment_ms: int = setting()

    @property
    def segment_bytes(self) -> int:
        """segment.bytes; tests set smaller segments by an internal key."""
        small: int | None = self["internal.segment.bytes"]
        usual: int = self["segment.bytes"]
        return usual if small is None else small

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy
