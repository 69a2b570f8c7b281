"""Opens the log directories of a node (JBOD): checks meta.properties and locks each of them."""

from __future__ import annotations

import os
from contextlib import suppress

from kraftlog.errors import StorageError, message_of
from kraftlog.node.controller.active_controller import first_levels
from kraftlog.server.ids import new_id
from kraftlog.server.loop import read_clock
from kraftlog.storage.directory import LogDirectory
from kraftlog.storage.format import DirectoryFormat, format_directory, is_formatted
from kraftlog.storage.meta_properties import load_for_node, store_cluster_id
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.config.broker import BrokerConfig
    from kraftlog.ports.files import Files
    from kraftlog.storage.disk import HandleCache
    from kraftlog.storage.meta_properties import MetaProperties

#: The previous broker epoch after anything but a clean shutdown, as in Kafka.
NO_EPOCH = -1


class OpenDirectories(Value):
    """The log directories that could be opened."""

    #: The properties of the directory with the metadata log.
    properties: MetaProperties
    metadata: LogDirectory
    #: The open directories of `log.dirs`, in their order.
    directories: tuple[LogDirectory, ...]
    #: The paths of those that could not be opened: replicas in them are offline.
    lost: tuple[str, ...]

    @property
    def broker_epoch(self) -> int:
        """The broker epoch that a clean shutdown has stored in all directories, else -1."""
        epochs = {directory.broker_epoch for directory in self.directories}
        return epochs.pop() if len(epochs) == 1 and not self.lost else NO_EPOCH


def open_directories(
    files: Files, settings: BrokerConfig, handles: HandleCache, log_line: Callable[[str], None]
) -> OpenDirectories:
    """Open all directories; any error in the directory of the metadata log is fatal.

    That directory must be formatted. Another one is formatted if it is empty, as on a new disk.
    One that cannot be read is left out, and the node serves the logs in the rest (V18).
    """
    path = os.path.abspath(settings.metadata_directory)
    properties = load_for_node(files, path, settings.node_id)
    metadata = LogDirectory(files, path, handles, directory_id=properties.directory_id)
    opened, lost = {path: metadata}, []
    try:
        for other in map(os.path.abspath, settings.directories):
            if other in opened:
                continue
            try:
                directory = _open(files, other, settings, properties, handles)
            except BlockingIOError:
                raise  # another node uses it
            except OSError as error:
                why = message_of(error)
                log_line(f"{other}: cannot be opened, so its replicas are offline: {why}")
                lost.append(other)
                continue
            opened[other] = directory
            _refuse_copies(*opened.values())
        for directory in opened.values():
            directory.keep_reserve(settings.kraftlog_reserve_bytes)
        paths = dict.fromkeys(map(os.path.abspath, settings.data_directories))
        directories = tuple([opened[path] for path in paths if path in opened])
        if not directories:
            raise StorageError(f"log.dirs={','.join(paths)}: none of them can be opened")
    except BaseException:
        for directory in opened.values():
            directory.release()
        raise
    return OpenDirectories(properties, metadata, directories, tuple(lost))


def _open(
    files: Files,
    path: str,
    settings: BrokerConfig,
    expected: MetaProperties,
    handles: HandleCache,
) -> LogDirectory:
    """Open a directory of this node, formatting it first if it is empty."""
    if not is_formatted(files, path):
        _format(files, path, settings, expected)
    properties = load_for_node(files, path, settings.node_id)
    if properties.cluster_id is None and expected.cluster_id is not None:
        # The node stopped before it had stored the id here.
        store_cluster_id(files, path, expected.cluster_id)
    elif properties.cluster_id != expected.cluster_id:
        raise StorageError(
            f"{path} belongs to cluster {properties.cluster_id}, and this node to "
            f"{expected.cluster_id or 'none yet'}: take it out of log.dirs, or empty it"
        )
    return LogDirectory(files, path, handles, directory_id=properties.directory_id)


def _format(files: Files, path: str, settings: BrokerConfig, expected: MetaProperties) -> None:
    """Format an empty directory; refuse one with files: it may be another node's, or damaged."""
    names = []
    with suppress(FileNotFoundError):
        names = [name for name in files.list(path) if name != "lost+found"]
    if names:
        raise StorageError(
            f"{path} has no meta.properties, but {names[0]} and other files: is it a directory "
            "of kraftlog or Kafka? Empty it to have it formatted, or take it out of log.dirs"
        )
    formatting = DirectoryFormat(
        cluster_id=expected.cluster_id,
        node_id=expected.node_id,
        features=first_levels(),
        metadata_directory=os.path.abspath(settings.metadata_directory),
        voters=None,
        listener=settings.controller_listener_names[0],
    )
    format_directory(files, path, new_id(), formatting, read_clock().wall_ms)


def _refuse_copies(*directories: LogDirectory) -> None:
    """Refuse the last directory if another has its id: one has been copied from the other."""
    *others, newest = directories
    for other in others:
        if other.id == newest.id:
            raise StorageError(
                f"{newest.path} and {other.path} have the same directory.id "
                f"{uuid_text(newest.id)} in meta.properties: one is a copy of the other; take it "
                "out of log.dirs"
            )
