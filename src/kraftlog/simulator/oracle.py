"""What an observer who sees everything knows: which logs are alike, and what is committed.

A *chain* is a number for a log up to and including one batch: two logs that have the same chain
somewhere are the same up to there. So agreement of whole prefixes is one comparison.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.messages import Batch

NO_CHAIN = -1


class Oracle:
    """`committed` holds the chain of every batch that some replica ever took for committed."""

    def __init__(self) -> None:
        self._chains: dict[Any, int] = {}
        self.committed: list[int] = []
        self.committed_batches: list[Batch] = []

    @property
    def known(self) -> int:
        """How many chains there are; the next new one has this number."""
        return len(self._chains)

    def chain(self, before: int, batch: Batch) -> int:
        """The number of the log that ends with `batch` behind the log `before`."""
        key = (before, batch.base_offset, batch.last_offset, batch.epoch, batch.payload)
        return self._chains.setdefault(key, len(self._chains))

    @property
    def committed_end(self) -> int:
        return self.committed_batches[-1].last_offset + 1 if self.committed_batches else 0
