"""`AppendConfig`: the topic settings that govern appends to its partitions."""

from __future__ import annotations

from kraftlog.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kraftlog.records.validate import ProduceRules
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.config.topic import TopicConfig

#: compression.type=producer: batches keep the producer's codec.
AS_PRODUCED = -1

_CODECS = {
    "producer": AS_PRODUCED,
    "uncompressed": NONE,
    "gzip": GZIP,
    "snappy": SNAPPY,
    "lz4": LZ4,
    "zstd": ZSTD,
}
#: Kafka's default for compression.lz4.level; the lz4 library without a level compresses equally.
_LZ4_LEVEL = 9


class AppendConfig(Value):
    """Shared by all partitions of a topic; immutable."""

    rules: ProduceRules
    #: The rules for versions of Produce that precede zstd.
    rules_before_zstd: ProduceRules
    min_insync_replicas: int
    codec: int = AS_PRODUCED
    level: int | None = None

    __slots__ = ("_stores_as_produced",)

    @property
    def stores_as_produced(self) -> bool:
        """Whether batches are stored unchanged, and only header and CRC are checked."""
        cached: bool | None = getattr(self, "_stores_as_produced", None)
        if cached is None:
            rules = self.rules
            cached = self.codec == AS_PRODUCED and not (
                rules.needs_record_checks or rules.has_log_append_time
            )
            self._stores_as_produced = cached
        return cached

    def must_repack(self, codec: int) -> bool:
        return self.codec != AS_PRODUCED and self.codec != codec  # noqa: PLR1714 - in the hot path


def append_config_of(config: TopicConfig) -> AppendConfig:
    rules = ProduceRules(
        max_batch_size=config.max_message_bytes,
        segment_size=config.segment_bytes,
        before_max_ms=config.message_timestamp_before_max_ms,
        after_max_ms=config.message_timestamp_after_max_ms,
        has_log_append_time=config.message_timestamp_type == "LogAppendTime",
        needs_keys=config.is_compacted,
        checks_every_record=config.batch_validation == "records",
    )
    return AppendConfig(
        rules=rules,
        rules_before_zstd=rules.replace(allows_zstd=False),
        min_insync_replicas=config.min_insync_replicas,
        codec=_CODECS[config.compression_type],
        level=_level(config),
    )


def _level(config: TopicConfig) -> int | None:
    compression_type = config.compression_type
    if compression_type == "gzip":
        return None if config.compression_gzip_level < 0 else config.compression_gzip_level
    if compression_type == "lz4":
        return None if config.compression_lz4_level == _LZ4_LEVEL else config.compression_lz4_level
    return config.compression_zstd_level if compression_type == "zstd" else None


DEFAULT_APPEND_CONFIG = AppendConfig(ProduceRules(), ProduceRules(allows_zstd=False), 1)
