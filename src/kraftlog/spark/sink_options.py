"""The options of the sink, with the names of Spark's Kafka connector; only `batchHeader` is ours.

The defaults are the connector's, too, except that of kafka.batch.size (`BATCH_BYTES`).
"""

from __future__ import annotations

from kraftlog.client.batch_sender import MAX_IN_FLIGHT
from kraftlog.client.produce_requests import ACKS
from kraftlog.records.compression import CODEC_NAMES
from kraftlog.spark.option_names import SINK
from kraftlog.spark.options import Options, security_by
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from kraftlog.client.security import Security

#: Bytes of a batch before compression. Kafka's default, 16384, suits producers of single records.
BATCH_BYTES = 512 << 10
#: The header that identifies a written row, so that readers can drop what a repeated task wrote
#: again.
ROW_ID_HEADER = "kraftlog.batch"


class SinkOptions(Value):
    servers: str
    topic: str | None = None
    #: Whether each row gets a `ROW_ID_HEADER`.
    has_batch_header: bool = False
    acks: str = "all"
    compression: str = "none"
    level: int | None = None
    is_idempotent: bool = True
    batch_bytes: int = BATCH_BYTES
    max_in_flight: int = MAX_IN_FLIGHT
    ignores_keys: bool = False
    request_timeout_s: float = 30.0
    delivery_timeout_s: float = 120.0
    client_id: str = "kraftlog-spark"
    security: Security | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return SinkOptions, tuple(getattr(self, name) for name in self._fields)


def sink_options(given: Mapping[str, Any]) -> SinkOptions:
    """Parse and check the options of a batch or streaming write."""
    SINK.check(given)
    options = Options(given)
    acks = (options.text("kafka.acks") or "all").lower()
    if acks not in ACKS:
        raise options.wrong("kafka.acks", f"expected {', '.join(ACKS)}")
    is_idempotent = options.flag("kafka.enable.idempotence", default=ACKS[acks] == -1)
    if is_idempotent and ACKS[acks] != -1:
        raise options.wrong("kafka.acks", "kafka.enable.idempotence=true needs acks=all")
    codec = (options.text("kafka.compression.type") or "none").lower()
    if codec not in CODEC_NAMES:
        raise options.wrong("kafka.compression.type", f"expected {', '.join(CODEC_NAMES)}")
    in_flight = options.number("kafka.max.in.flight.requests.per.connection") or MAX_IN_FLIGHT
    if is_idempotent and in_flight > MAX_IN_FLIGHT:
        raise options.wrong(
            "kafka.max.in.flight.requests.per.connection",
            f"expected at most {MAX_IN_FLIGHT} with idempotence",
        )
    batch_bytes = options.number("kafka.batch.size", minimum=0)
    topic = options.text("topic")
    if topic == "":
        raise options.wrong("topic", "expected the name of a topic")
    return SinkOptions(
        servers=options.required("kafka.bootstrap.servers"),
        topic=topic,
        has_batch_header=options.flag("batchHeader", default=False),
        acks=acks,
        compression=codec,
        level=options.number(f"kafka.compression.{codec}.level", minimum=None),
        is_idempotent=is_idempotent,
        # 0 turns batching off, as in Kafka: a batch has at least one record.
        batch_bytes=BATCH_BYTES if batch_bytes is None else max(batch_bytes, 1),
        max_in_flight=in_flight,
        ignores_keys=options.flag("kafka.partitioner.ignore.keys", default=False),
        request_timeout_s=(options.number("kafka.request.timeout.ms") or 30_000) / 1000,
        delivery_timeout_s=(options.number("kafka.delivery.timeout.ms") or 120_000) / 1000,
        client_id=options.text("kafka.client.id") or "kraftlog-spark",
        security=security_by(options),
    )
