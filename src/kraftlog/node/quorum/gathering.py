"""Proposals of a turn on their way to become one batch: one write, one sync, one message to each
follower for all of them."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kraftlog.types import Now

    #: Gets the code of what became of a proposal.
    Told = Callable[[int, Now], None]

#: They become one batch as long as it is no larger than this.
GATHERED_BYTES = 64 << 10


class Gathered:
    """Encoded records that are proposed and not in the log yet, and whom to tell of them."""

    def __init__(self) -> None:
        self._values: list[bytes] = []
        self._size_bytes = 0
        self._askers: list[Told] = []

    def __len__(self) -> int:
        return len(self._values)

    def has_room(self, size_bytes: int) -> bool:
        return self._size_bytes + size_bytes <= GATHERED_BYTES

    def add(self, values: Sequence[bytes], size_bytes: int, told: Told) -> None:
        self._values += values
        self._size_bytes += size_bytes
        self._askers.append(told)

    def take(self) -> tuple[Sequence[bytes], Sequence[Told]]:
        taken = self._values, self._askers
        self._values, self._size_bytes, self._askers = [], 0, []
        return taken
