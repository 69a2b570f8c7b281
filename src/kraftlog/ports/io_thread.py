"""`IOThread`: runs blocking calls outside the event loop."""

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
