"""`CommittedOffsets`: up to which offset each log of a directory is known to have been committed.

Kafka's checkpoint of high watermarks names a log by topic and partition, which another log may have
later, and is cut to the log when the log is opened. This file (kraftlog's own) has the topic id and
the first leader epoch too, and it outlives the folder of a log: a replica whose folder is gone, or
whose log ends below its line, has lost records (V19). Such a line stays until the replica has
caught up with another one.
"""

from __future__ import annotations

from kraftlog.steps import result_of
from kraftlog.storage.checkpoints import decode_committed, encode_lines_in_steps
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Set

    from kraftlog.storage.log import Log
    from kraftlog.types import LogName, Uuid

    #: Topic id, first leader epoch, committed offset.
    Line = tuple[Uuid, int, int]

COMMITTED_OFFSETS = "kraftlog-committed-offsets"


class CommittedOffsets:
    """The lines of the file, by log."""

    def __init__(self, data: bytes | None, path: str) -> None:
        """`data`: the content of the file; None if there is none yet."""
        self.path = path
        self._lines: dict[LogName, Line] = {} if data is None else decode_committed(data, path)
        #: The logs that have lost records: their lines do not follow the high watermarks.
        self._incomplete: set[LogName] = set()

    def of(self, name: LogName, topic_id: Uuid, first_leader_epoch: int) -> int:
        """What this replica has committed; 0 if the line is about another one of that name."""
        line = self._lines.get(name)
        return line[2] if line is not None and line[:2] == (topic_id, first_leader_epoch) else 0

    def note(self, name: LogName, log: Log, high_watermark: int) -> None:
        """Note the high watermark of an open log, unless the log has lost records."""
        if name in self._incomplete:
            return
        if not high_watermark:
            self._lines.pop(name, None)
        elif name not in self._lines or self._lines[name] != _line(log, high_watermark):
            self._lines[name] = _line(log, high_watermark)

    def is_incomplete(self, name: LogName, log: Log, offset: int) -> None:
        """The log lacks records before `offset`, which it had: keep that until `completed`."""
        self._lines[name] = _line(log, offset)
        self._incomplete.add(name)

    def completed(self, name: LogName) -> None:
        """The replica has caught up, or leads: its log is what counts."""
        self._incomplete.discard(name)

    def lower(self, name: LogName, offset: int) -> bool:
        """Records from `offset` on are to be truncated; return whether a line has changed."""
        line = self._lines.get(name)
        if line is None or line[2] <= offset or name in self._incomplete:
            return False
        self._lines[name] = (*line[:2], offset)
        return True

    def forget(self, name: LogName) -> None:
        """The replica was removed."""
        self._lines.pop(name, None)
        self._incomplete.discard(name)

    def forget_all_but(self, names: Set[LogName]) -> None:
        """Only these replicas are assigned to the broker."""
        for name in self._lines.keys() - names:
            self.forget(name)

    def encode(self) -> bytes:
        return result_of(self.encode_in_steps())

    def encode_in_steps(self) -> Generator[None, None, bytes]:
        """Encode the lines as of the first step."""
        lines = self._lines.copy()
        return (yield from encode_lines_in_steps(_texts(lines)))


def _line(log: Log, offset: int) -> Line:
    return log.topic_id, log.first_leader_epoch, offset


def _texts(lines: Mapping[LogName, Line]) -> Generator[str, None, None]:
    for (topic, index), (topic_id, first_epoch, offset) in sorted(lines.items()):
        yield f"{topic} {index} {offset} {uuid_text(topic_id)} {first_epoch}"
