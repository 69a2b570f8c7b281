"""Several logs or copies of one partition at the start: which is the replica (V19, V22).

The replica is the log in the directory that the metadata names. So nothing is decided before the
node has replayed its own registration: until then every log and every copy stays. If the directory

- has the log, logs elsewhere are what a move has left. They are deleted once that log is open.
- has only a copy, and another directory has the log, the move is not finished and that log is the
  replica. Once the metadata names its directory, the copy is deleted and the move begins again.
- has a whole copy, and no directory has the log, the copy takes the log's name.
- cannot be opened, there is no replica: a log elsewhere may lack records, so it neither leads nor
  follows. The same if the metadata has the replica as failed or lost, no directory has a log, and
  one cannot be opened.
- is unknown or not recorded yet, the log is the replica if there is just one of this partition;
  those of an earlier one, which was removed before it was added again, are deleted, too (V11).
"""

from __future__ import annotations

from kraftlog.errors import StorageError
from kraftlog.metadata.values import DirectoryId, is_reserved
from kraftlog.runner.log_moves import is_recorded
from kraftlog.storage.future_logs import is_whole, topic_id_of
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraftlog.effects import OpenLog
    from kraftlog.node.node import Node
    from kraftlog.ports.files import Files
    from kraftlog.runner.data_directory import DataDirectory
    from kraftlog.types import LogName, Uuid


#: What the metadata has for a replica with a log somewhere, in place of its directory.
_WITHOUT_DIRECTORY = (DirectoryId.FAILED, DirectoryId.LOST)


class NoReplicaError(Exception):
    """No log can be used as the replica; the text is for the operator."""


class FoundCopies:
    """The logs and copies that moves of earlier processes, or failed moves, have left."""

    def __init__(
        self,
        files: Files,
        directories: Sequence[DataDirectory],
        lost: Sequence[str],
        log_line: Callable[[str], None],
        begin_move: Callable[[LogName, DataDirectory, DataDirectory], None],
    ) -> None:
        """`lost`: the directories that could not be opened."""
        self._files = files
        self._directories = directories
        self._by_id = {directory.directory.id: directory for directory in directories}
        self._lost = lost
        self._log_line = log_line
        self._begin_move = begin_move
        #: The logs that are not replicas, of partitions whose replica is to be opened.
        self._former: dict[LogName, list[DataDirectory]] = {}
        #: The directories with copies of a log, and the target of a move that is to be resumed.
        self._copies: dict[LogName, list[DataDirectory]] = {}
        self._to_resume: dict[LogName, DataDirectory] = {}
        #: Logs in another directory than the metadata names, because a move is not finished.
        self.originals: set[LogName] = set()
        for directory in directories:
            for name in directory.directory.copies:
                self._copies.setdefault(name, []).append(directory)
                self._to_resume[name] = directory

    # The replica ---------------------------------------------------------------------------------

    def find(self, effect: OpenLog) -> DataDirectory | None:
        """The directory with the replica that is to be opened; None if there is no log yet."""
        name, assigned = effect.log, self._by_id.get(effect.directory)
        if assigned is None and self._lost and not is_reserved(effect.directory):
            raise NoReplicaError(f"its log directory is offline, one of {', '.join(self._lost)}")
        present = [it for it in self._directories if name in it.directory.unopened]
        if self._lost and effect.directory in _WITHOUT_DIRECTORY and not present:
            raise NoReplicaError(
                f"it may be in a directory that is offline: {', '.join(self._lost)}"
            )
        if name not in self._copies and (not present or present == [assigned]):
            return assigned if present else None
        if len(present) > 1 or name in self._copies:
            present = self._set_others_aside(effect, present)
        if assigned in present:
            return assigned
        copies = [] if assigned is None else self._copies_in(assigned, effect)
        if len(present) > 1:
            paths = ", ".join([it.directory.folder(name) for it in present])
            raise NoReplicaError(f"a partition has one log, not {paths}; remove the older ones")
        if present:
            if copies:
                self.originals.add(name)
            return present[0]
        if assigned is not None and copies:
            self._adopt(name, assigned, copies)
            return assigned
        return None

    def _set_others_aside(
        self, effect: OpenLog, present: list[DataDirectory]
    ) -> list[DataDirectory]:
        """The directories with a log of this topic; the other logs are renamed or deleted later.

        Once a partition was removed and added again, logs of the earlier one are others, too (V11).
        """
        name, first_epoch = effect.log, effect.first_leader_epoch
        own = [it for it in present if it.directory.topic_id(name) == effect.topic_id]
        if len(own) > 1 and first_epoch:
            newest = [it for it in own if it.directory.first_leader_epoch(name) == first_epoch]
            own = newest or own
        assigned = self._by_id.get(effect.directory)
        kept = [assigned] if assigned in own else own
        former = [it for it in present if it not in kept]
        if former:
            self._former[effect.log] = former
        return own

    def _copies_in(self, directory: DataDirectory, effect: OpenLog) -> list[str]:
        """The copies of this topic's log in a directory."""
        folders = directory.directory.copies.get(effect.log, ())
        return [it for it in folders if topic_id_of(self._files, it) == effect.topic_id]

    def _adopt(self, name: LogName, directory: DataDirectory, copies: list[str]) -> None:
        """Let a whole copy be the replica: the log is lost, and the metadata names the copy."""
        whole = [folder for folder in copies if is_whole(self._files, folder)]
        if not whole:
            raise NoReplicaError(
                f"the metadata names {directory.path}, which has a part of it: the log itself, in "
                "another log directory, is missing"
            )
        if name in directory.directory.unopened:  # of another topic
            directory.directory.rename_as_stray(name)
            directory.directory.forget(name)
        directory.directory.adopt_copy(name, whole[0])
        self._log_line(f"{directory.directory.folder(name)}: taken from the copy {whole[0]}")

    # Leftovers -----------------------------------------------------------------------------------

    def keep(self, name: LogName, directory: DataDirectory) -> None:
        """Keep the copy of a failed move until the metadata names the directory of the log."""
        self._copies.setdefault(name, []).append(directory)

    def forget(self, name: LogName, topic_id: Uuid) -> None:
        """The replica is deleted, and so is all that is left of it."""
        self._delete_former(name, topic_id)
        self._discard_copies(name)
        self._to_resume.pop(name, None)

    def forget_all_but(self, names: frozenset[LogName]) -> None:
        """Discard the copies of logs that are no replicas of this broker."""
        for name in self._copies.keys() - names:
            self._discard_copies(name)
            self._to_resume.pop(name, None)

    @property
    def has_any(self) -> bool:
        return bool(self._former or self._copies)

    def settle(self, node: Node, directory_of: Callable[[LogName], DataDirectory | None]) -> None:
        """Delete what is left of moves where an open log is the replica, also in the metadata."""
        for name in [*self._former, *self._copies]:
            replica = directory_of(name)
            log = None if replica is None else replica.directory.logs.get(name)
            if replica is None or log is None:
                continue
            if replica in self._former.get(name, ()):
                self._former[name].remove(replica)  # its folder was renamed for the new log
            self._delete_former(name, log.topic_id)
            if name not in self._copies:
                continue
            if is_recorded(node, name, log.topic_id, replica.directory.id):
                target = self._target(name, log.topic_id)
                self._discard_copies(name)
                if target is not None and target is not replica:
                    self._begin_move(name, replica, target)

    def _target(self, name: LogName, topic_id: Uuid) -> DataDirectory | None:
        """The target of the move that is to be resumed, unless it moved another topic's log."""
        target = self._to_resume.pop(name, None)
        folders = [] if target is None else target.directory.copies.get(name, [])
        owners = [topic_id_of(self._files, folder) for folder in folders]
        return target if topic_id in owners or None in owners else None

    def _delete_former(self, name: LogName, topic_id: Uuid) -> None:
        for directory in self._former.pop(name, ()):
            folder = directory.directory.folder(name)
            self._log_line(f"{folder}: deleted, because the replica is in another log directory")
            if directory.directory.forget(name):
                directory.lifecycle.delete_folder(name, topic_id)

    def _discard_copies(self, name: LogName) -> None:
        self.originals.discard(name)
        for directory in self._copies.pop(name, ()):
            try:
                directory.directory.discard_copies(name)
            except StorageError as error:
                self._log_line(str(error))
