"""Converts operating system errors to StorageError, with the operation that failed."""

from __future__ import annotations

from kraftlog.errors import StorageError
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog.storage.log import Log


class IOContext:
    """Turns an operating system error into a StorageError that names the operation.

    A failed read does not take the disk offline: the rest of the directory may be fine. Any other
    error does, unless the operation may be retried, as on a full disk (`Disk.fail_unless_full`).
    """

    __slots__ = ("_log", "_only_reads", "_operation")

    def __init__(self, log: Log, operation: str, *, only_reads: bool = False) -> None:
        self._log = log
        self._operation = operation
        self._only_reads = only_reads

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError):
            if self._only_reads:
                raise read_error(self._log, self._operation, error) from error
            where = f"{error.filename or self._log.folder}: {self._operation}"
            raise self._log.disk.fail_unless_full(where, error) from error


def read_error(log: Log, operation: str, error: OSError) -> StorageError:
    """The exception for a failed read."""
    return StorageError(f"{error.filename or log.folder}: {operation}: {error.strerror or error}")
