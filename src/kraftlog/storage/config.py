"""The settings of one log, by the names that Kafka gives them."""

from __future__ import annotations

from kraftlog.value import Value

MAX_RELATIVE_OFFSET = 0x7FFFFFFF
MAX_POSITION = 0x7FFFFFFF
_DAY_MS = 86_400_000


class LogConfig(Value):
    """What a topic's configuration says about its logs; -1 means without limit."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    #: the topic is known never to be compacted: after a crash a hole between segments means that
    #: the end of one was lost. Where that is not known, holes are left alone, as Kafka does.
    contiguous: bool = False
    #: the latest value of each key is kept, what it has replaced goes
    compacted: bool = False
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = (1 << 63) - 1
    delete_retention_ms: int = _DAY_MS
    #: how many records may be written and not be durable yet, when they are called written
    flush_messages: int = (1 << 63) - 1
    #: reserved ahead of a log that is written a lot; 0: never
    allocate_bytes: int = 64 << 20
    #: it is written when only the reserve is left
    uses_reserve: bool = False


DEFAULT_CONFIG = LogConfig()
