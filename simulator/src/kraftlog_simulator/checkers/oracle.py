"""Global knowledge of a run: which logs are equal, and what is committed.

A *chain* is a number for a log up to and including one batch: two logs that have a chain in common
are equal up to its batch. So whole prefixes are compared by comparing two numbers.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.raft.messages import Batch

NO_CHAIN = -1


class Oracle:
    """`committed` has the chain of every batch that some replica ever reported as committed."""

    def __init__(self) -> None:
        self._chains: dict[Any, int] = {}
        #: By chain: the previous chain, and the batch after it.
        self._links: list[tuple[int, Batch]] = []
        self.committed: list[int] = []
        self.committed_batches: list[Batch] = []
        #: The number of chains; the next new one gets this number.
        self.chain_count = 0

    def chain(self, before: int, batch: Batch) -> int:
        """The chain of the log that ends with `batch` after the log `before`."""
        key = (before, batch.base_offset, batch.last_offset, batch.epoch, batch.payload)
        chain = self._chains.setdefault(key, self.chain_count)
        if chain == self.chain_count:
            self.chain_count += 1
            self._links.append((before, batch))
        return chain

    def log_of(self, chain: int) -> tuple[list[Batch], list[int]]:
        """The batches of the log with this chain, and the chain of each."""
        batches, chains = [], []
        while chain != NO_CHAIN:
            chains.append(chain)
            chain, batch = self._links[chain]
            batches.append(batch)
        return batches[::-1], chains[::-1]

    def between(self, before: int, chain: int) -> list[Batch] | None:
        """The batches of the log `chain` after its prefix `before`; None if that is no prefix."""
        batches = []
        while chain > before:  # a log has a larger number than its prefixes
            chain, batch = self._links[chain]
            batches.append(batch)
        return batches[::-1] if chain == before else None

    @property
    def committed_end(self) -> int:
        return self.committed_batches[-1].last_offset + 1 if self.committed_batches else 0
