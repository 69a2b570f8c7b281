"""`kraftlog format …` is `kraftlog storage format …`."""

from __future__ import annotations

from kraftlog.cli import storage
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(arguments: Sequence[str]) -> int:
    return storage.run(["format", *arguments])
