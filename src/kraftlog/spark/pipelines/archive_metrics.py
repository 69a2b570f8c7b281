"""The metrics of `pipeline archive --metrics`, which a thread of its own publishes.

The threads that archive only note what they have committed. The ends of the logs are looked up by
the metrics' own client, also while a batch hangs, so that its lag is seen to grow.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import TYPE_CHECKING

from kraftlog.client.deadline import wall_ms
from kraftlog.client.fetched_batches import READ_COMMITTED
from kraftlog.errors import KraftlogError
from kraftlog.spark.options import LATEST, Limit
from kraftlog.spark.positions import resolved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kraftlog.client.client import Client
    from kraftlog.spark.lake.topic_archive import BatchReport
    from kraftlog.spark.pipelines.metrics_output import MetricsOutput

_NS = 1_000_000_000
#: How often the ends of the logs are looked up.
_EVERY_S = 10
#: Rates are averages over this time, as batches come in bursts.
_WINDOW_S = 60
#: How long to wait at the end for a look-up that is under way.
_CLOSE_S = 2


@dataclass
class _Partition:
    #: The first offset that the table does not have.
    offset: int
    #: The end of what can be archived.
    log_end: int
    #: Since the run began.
    rows: int = 0
    bytes: int = 0
    dead_letters: int = 0
    #: Time in seconds, rows and bytes of the commits in the window.
    recent: deque[tuple[float, int, int]] = field(default_factory=deque)


@dataclass
class _Topic:
    committed_ms: int
    partitions: dict[int, _Partition]
    #: When the ends of its log were looked up last.
    looked_up_ms: int
    is_up: bool = True


class ArchiveMetrics:
    """Any thread may note something; only the metrics' own thread waits for brokers or disks."""

    def __init__(
        self,
        output: MetricsOutput,
        new_client: Callable[[], Client],
        say: Callable[[str], None],
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._output, self._new_client, self._say = output, new_client, say
        self._now_ns = now_ns
        self._begun_s = self._now_s()
        self._topics: dict[str, _Topic] = {}
        self._changed = Condition()
        self._version = 0
        self._is_closed = False
        self._has_failed = False
        self._thread = Thread(target=self._run, daemon=True)

    def _now_s(self) -> float:
        return self._now_ns() / _NS

    def start(self) -> None:
        if self._output.url:
            self._say(f"metrics at {self._output.url}")
        self._thread.start()

    def close(self) -> None:
        """Publish a last time; the ends of the logs are those that are known."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(_CLOSE_S)
        self._publish()
        self._output.close()

    # Called by the archive

    def begin(
        self, topic: str, offsets: Mapping[int, int], log_ends: Mapping[int, int], committed_ms: int
    ) -> None:
        """A topic's table ends at these offsets; its newest version was committed at this time."""
        parts = {index: _Partition(offset, log_ends[index]) for index, offset in offsets.items()}
        with self._changed:
            self._topics[topic] = _Topic(committed_ms, parts, looked_up_ms=wall_ms())
            self._note_change()

    def commit(self, batch: BatchReport) -> None:
        now_s = self._now_s()
        with self._changed:
            topic = self._topics[batch.topic]
            topic.committed_ms = topic.looked_up_ms = wall_ms()
            for index, added in batch.partitions.items():
                part = topic.partitions.setdefault(index, _Partition(added.end, added.end))
                part.offset = added.end
                part.rows += added.rows
                part.bytes += added.bytes
                part.dead_letters += added.bad
                part.recent.append((now_s, added.rows, added.bytes))
            for index, end in batch.log_ends.items():
                topic.partitions[index].log_end = end
            self._note_change()

    def refuse(self, topic: str) -> None:
        """A topic is no longer archived, while others are."""
        with self._changed:
            self._topics.setdefault(topic, _Topic(0, {}, 0)).is_up = False
            self._note_change()

    def _note_change(self) -> None:
        self._version += 1
        self._changed.notify_all()

    # The thread

    def _run(self) -> None:
        client = self._new_client()
        next_look_s = self._now_s()
        published = -1
        with client:
            while not self._is_closed:
                if self._now_s() >= next_look_s and self._topics:
                    self._look_up(client)
                    next_look_s = self._now_s() + _EVERY_S
                    published = -1
                if published != self._version:
                    published = self._version
                    self._publish()
                with self._changed:
                    if published == self._version and not self._is_closed:
                        self._changed.wait(max(0.05, next_look_s - self._now_s()))

    def _look_up(self, client: Client) -> None:
        """Look up the end of each topic's log; one that can't be looked up keeps its old ends."""
        with self._changed:
            names = {
                topic: [(topic, index) for index in state.partitions]
                for topic, state in self._topics.items()
                if state.is_up
            }
        for topic, partitions in names.items():
            try:
                latest = resolved(
                    client.cluster, partitions, Limit(everywhere=LATEST), READ_COMMITTED
                )
            except KraftlogError:
                continue
            with self._changed:
                state = self._topics[topic]
                state.looked_up_ms = wall_ms()
                for (_, index), end in latest.items():
                    state.partitions[index].log_end = end

    def _publish(self) -> None:
        try:
            self._output.publish(self.text())
        except OSError as error:  # a full disk, for instance
            if not self._has_failed:
                self._say(f"the metrics cannot be written: {error}")
            self._has_failed = True
        else:
            self._has_failed = False

    # The text

    def text(self) -> str:
        with self._changed:
            return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        topics = sorted(self._topics.items())
        parts = [
            (f'topic="{topic}",partition="{index}"', part)
            for topic, state in topics
            for index, part in sorted(state.partitions.items())
        ]
        rates = [(labels, *self._rates(part)) for labels, part in parts]
        yield from _metric(
            "up",
            "gauge",
            "1 while the topic is archived, 0 if it is refused and others are archived.",
            ((f'topic="{topic}"', int(state.is_up)) for topic, state in topics),
        )
        yield from _metric(
            "offset",
            "gauge",
            "The first offset that the table does not have.",
            ((labels, part.offset) for labels, part in parts),
        )
        yield from _metric(
            "log_end_offset",
            "gauge",
            "The end of the log, or of the committed records in it.",
            ((labels, part.log_end) for labels, part in parts),
        )
        yield from _metric(
            "lag_offsets",
            "gauge",
            "Offsets of the log that the table does not have.",
            ((labels, max(0, part.log_end - part.offset)) for labels, part in parts),
        )
        for name, text, values in (
            ("rows", "Rows archived by this run.", [part.rows for _, part in parts]),
            ("bytes", "Bytes of the files written by this run.", [part.bytes for _, part in parts]),
            (
                "dead_letters",
                "Records that this run could not decode.",
                [part.dead_letters for _, part in parts],
            ),
        ):
            labelled = zip((labels for labels, _ in parts), values, strict=True)
            yield from _metric(f"{name}_total", "counter", text, labelled)
        for name, values_per_s in (
            ("rows_per_second", [(labels, rows) for labels, rows, _ in rates]),
            ("bytes_per_second", [(labels, size) for labels, _, size in rates]),
        ):
            yield from _metric(name, "gauge", "Average over the last minute.", values_per_s)
        yield from _metric(
            "last_commit_time_seconds",
            "gauge",
            "When the table got its newest rows, as Unix time.",
            (
                (f'topic="{topic}"', f"{state.committed_ms / 1000:.3f}")
                for topic, state in topics
                if state.committed_ms
            ),
        )
        yield from _metric(
            "log_end_time_seconds",
            "gauge",
            "When the end of the log was looked up last, as Unix time.",
            (
                (f'topic="{topic}"', f"{state.looked_up_ms / 1000:.3f}")
                for topic, state in topics
                if state.looked_up_ms
            ),
        )

    def _rates(self, part: _Partition) -> tuple[float, float]:
        """Rows and bytes per second in the window."""
        now_s = self._now_s()
        while part.recent and part.recent[0][0] <= now_s - _WINDOW_S:
            part.recent.popleft()
        window_s = max(1.0, min(_WINDOW_S, now_s - self._begun_s))
        rows, size = (sum(each[field] for each in part.recent) for field in (1, 2))
        return round(rows / window_s, 1), round(size / window_s, 1)


def _metric(
    name: str, kind: str, text: str, samples: Iterable[tuple[str, object]]
) -> Iterator[str]:
    yield f"# HELP kraftlog_archive_{name} {text}"
    yield f"# TYPE kraftlog_archive_{name} {kind}"
    for labels, value in samples:
        yield f"kraftlog_archive_{name}{{{labels}}} {value}"
