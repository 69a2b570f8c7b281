"""The config of one log: Kafka's topic configs, and what only kraftlog needs."""

from __future__ import annotations

from kraftlog.value import Value

#: Kafka's indexes have 32-bit offsets, relative to the segment's base offset, and positions.
MAX_RELATIVE_OFFSET = 0x7FFFFFFF
MAX_POSITION = 0x7FFFFFFF
_DAY_MS = 86_400_000


class LogConfig(Value):
    """A topic's config for its logs; -1 means no limit."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    #: The topic has never been compacted, so a gap between segments means lost records. If this is
    #: not certain, it is False, and gaps are accepted, as in Kafka.
    contiguous: bool = False
    #: whether cleanup.policy has `compact`
    compacted: bool = False
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = (1 << 63) - 1
    delete_retention_ms: int = _DAY_MS
    #: how many records may be appended before a flush is forced
    flush_messages: int = (1 << 63) - 1
    #: preallocation for a busy log; 0: never
    allocate_bytes: int = 64 << 20
    #: whether the log may be written when only the disk's reserve is left
    uses_reserve: bool = False


DEFAULT_CONFIG = LogConfig()
