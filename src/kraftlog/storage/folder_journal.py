"""`FolderJournal`: which logs have, or had, a folder with records in a log directory.

A new log has no segment, and maybe no folder, before its first record. So a log without segments at
a start may never have had any, or somebody has removed them with all records (V19). The journal
tells: a line is appended before a log gets its first segment, and another one when its folder is
deleted. The flush that makes the first records durable syncs the line, too: a topic that flushes
each record misses its log also after a power loss. A line names the topic id and the first leader
epoch, as another log may have the same name later.
"""

from __future__ import annotations

from kraftlog.storage.disk import read_whole, write_atomically
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Set

    from kraftlog.storage.disk import Disk
    from kraftlog.storage.log import Log
    from kraftlog.types import LogName, Uuid

JOURNAL = "kraftlog-folders"
_BEGUN, _DELETED = "+", "-"
#: The journal is rewritten at a start if it has this many lines more than there are folders.
_MOST_STALE = 1000


class FolderJournal:
    """The lines of the journal, by log: topic id and first leader epoch, as text."""

    def __init__(self, disk: Disk, path: str, names: Collection[str]) -> None:
        self._disk = disk
        self._files = files = disk.files
        self.path = f"{path}/{JOURNAL}"
        data = read_whole(files, self.path) if JOURNAL in names else b""
        #: Where the next line goes: a line that a crash has cut is overwritten.
        self._end = data.rfind(b"\n") + 1
        lines = data[: self._end].decode("utf-8", "replace").splitlines()
        self._lines = len(lines)
        self._identities: dict[LogName, str] = {}
        for line in lines:
            self._read(line)

    def _read(self, line: str) -> None:
        """Read a line; one that a power loss has damaged is no line."""
        sign, _, rest = line.partition(" ")
        topic, _, rest = rest.partition(" ")
        index, _, identity = rest.partition(" ")
        if not (index.isascii() and index.isdecimal() and identity):
            return
        if sign == _BEGUN:
            self._identities[topic, int(index)] = identity
        else:
            self._identities.pop((topic, int(index)), None)

    def had_records(self, name: LogName, topic_id: Uuid, first_leader_epoch: int) -> bool:
        return self._identities.get(name) == _identity(topic_id, first_leader_epoch)

    def begun(self, name: LogName, log: Log) -> bool:
        """The log has, or is about to have, a segment; return whether that was new."""
        identity = _identity(log.topic_id, log.first_leader_epoch)
        if self._identities.get(name) == identity:
            return False
        self._append(_line(_BEGUN, name, identity))
        self._identities[name] = identity
        return True

    def deleted(self, name: LogName) -> None:
        """The folder of a log is deleted, or its loss is made up for."""
        identity = self._identities.pop(name, None)
        if identity is not None:
            self._append(_line(_DELETED, name, identity))

    def forget_all_but(self, names: Set[LogName]) -> None:
        """Only these replicas are assigned to the broker: rewrite the journal if it has grown."""
        for name in self._identities.keys() - names:
            del self._identities[name]
        if self._lines > len(self._identities) + _MOST_STALE:
            lines = [_line(_BEGUN, *entry) for entry in self._identities.items()]
            self._rewrite(lines)
            self._end, self._lines = sum(map(len, lines)), len(lines)

    def _rewrite(self, lines: list[bytes]) -> None:
        try:
            write_atomically(self._files, self.path, b"".join(lines))
        except OSError as error:
            raise self._disk.fail_unless_full(f"{self.path}: rewriting it", error) from error

    def _append(self, line: bytes) -> None:
        try:
            file = self._files.open(self.path, create=True)
            try:
                self._files.pwritev(file, [line], self._end)
            finally:
                self._files.close(file)
        except OSError as error:
            raise self._disk.fail_unless_full(f"{self.path}: adding a line", error) from error
        self._end += len(line)
        self._lines += 1


def _identity(topic_id: Uuid, first_leader_epoch: int) -> str:
    return f"{uuid_text(topic_id)} {first_leader_epoch}"


def _line(sign: str, name: LogName, identity: str) -> bytes:
    return f"{sign} {name[0]} {name[1]} {identity}\n".encode()
