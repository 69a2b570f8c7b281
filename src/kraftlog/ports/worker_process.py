"""`WorkerProcess`: runs CPU-bound work outside the event loop."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from kraftlog.types import Now

    class WorkerProcess(Protocol):
        def compact(
            self,
            task: dict[str, Any],
            done: Callable[[Any, BaseException | None, Now], None],
        ) -> None:
            """Run `kraftlog.storage.cleaning.clean`; then call `done(result, error, now)`."""
            ...
