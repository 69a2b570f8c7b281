"""The progress of streaming queries, as Spark tells it to a listener."""

from __future__ import annotations

import json
from threading import Event
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kraftlog.spark.pipelines.progress import Progress

#: How long the last batch of a query that has ended is waited for.
_LAST_BATCH_S = 10


class QueryProgress(StreamingQueryListener):
    """Shows the micro-batches of a query. Spark calls it from another thread."""

    def __init__(
        self,
        progress: Progress,
        on_batch: Callable[[Mapping[str, object]], None] | None = None,
    ) -> None:
        self._progress = progress
        self._on_batch = on_batch
        self._rows = 0
        self._has_ended = Event()
        self._error: Exception | None = None

    def onQueryStarted(self, event: object) -> None:
        pass

    def onQueryIdle(self, event: object) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        batch = json.loads(event.progress.json)
        self._rows += batch["numInputRows"]
        self._progress.show(self._rows, lag=lag_of(batch), batch=batch["batchId"])
        if self._on_batch is not None and self._error is None:
            try:
                self._on_batch(batch)
            except Exception as error:  # Spark would log and forget it
                self._error = error

    def onQueryTerminated(self, event: object) -> None:
        self._has_ended.set()

    def check(self) -> None:
        """Raise the error of `on_batch`, if there was one."""
        if self._error is not None:
            raise self._error

    def wait(self) -> None:
        """Wait until the last batch of a query that has ended was shown."""
        self._has_ended.wait(_LAST_BATCH_S)
        self.check()


def lag_of(batch: Mapping[str, Any]) -> int | None:
    """The records between where a batch ended and the topics' ends; None if a source has none."""
    lag = 0
    for source in batch["sources"]:
        end, latest = (_offsets(source.get(name)) for name in ("endOffset", "latestOffset"))
        if end is None or latest is None:
            return None
        lag += sum(max(offset - end.get(name, 0), 0) for name, offset in latest.items())
    return lag


def _offsets(value: object) -> dict[tuple[str, str], int] | None:
    """Offsets by topic and partition, of Spark's form `{"topic": {"0": 23}}`."""
    if isinstance(value, str):
        value = json.loads(value)
    if not isinstance(value, dict) or not all(isinstance(it, dict) for it in value.values()):
        return None
    return {
        (topic, index): int(offset)
        for topic, offsets in value.items()
        for index, offset in offsets.items()
    }
