"""`IOThread`: runs blocking calls outside the event loop; `IOThreads` are those of a node.

Each thread runs its jobs in order. Between two threads there is no order: whatever must follow a
job of another thread is started by that job's callback, on the loop
(docs/understand/storage.md has the list).
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from kraftlog.types import Now

    class IOThread(Protocol):
        def submit(
            self,
            job: Callable[[], Any],
            done: Callable[[Any, BaseException | None, Now], None],
        ) -> None:
            """Run `job` on the thread, in order; then call `done(result, error, now)`."""
            ...

    class IOThreads(Protocol):
        """The threads of a node, by purpose.

        A disk that hangs delays only the jobs that need it: no vote waits for a data log.
        """

        @property
        def quorum(self) -> IOThread:
            """For the metadata log, its snapshots and the election state."""
            ...

        @property
        def data(self) -> IOThread:
            """For flushes of all other logs."""
            ...

        @property
        def maintenance(self) -> IOThread:
            """For checkpoint files, and for deleting files."""
            ...
