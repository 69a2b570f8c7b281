"""Answers put together of parts: of several groups, or of what a shard need not be asked.

A shard answers a slot; what stands in for the slot here hands on what has become of it.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Changed:
    """A slot whose answer is changed before it leaves."""

    __slots__ = ("_change", "_slot")

    def __init__(self, slot: Any, change: Callable[[Any], Any]) -> None:
        self._slot = slot
        self._change = change

    def answer(self, response: Any) -> None:
        self._slot.answer(self._change(response))


class Gather:
    """Parts in the order in which they were asked for; the answer leaves with the last one."""

    __slots__ = ("_finish", "_left", "_parts", "_slot")

    def __init__(self, slot: Any, finish: Callable[[list[Any]], Any]) -> None:
        self._slot = slot
        self._finish = finish
        self._parts: list[Any] = []
        #: Parts that are missing, and one for whoever still adds some.
        self._left = 1

    def part(self) -> Part:
        """A slot for one part."""
        self._parts.append(None)
        self._left += 1
        return Part(self, len(self._parts) - 1)

    def done(self) -> None:
        """All parts have been asked for, or another one has come."""
        self._left -= 1
        if not self._left:
            self._slot.answer(self._finish(self._parts))

    def put(self, index: int, part: Any) -> None:
        self._parts[index] = part
        self.done()


class Part:
    """What a shard takes for a slot."""

    __slots__ = ("_gather", "_index")

    def __init__(self, gather: Gather, index: int) -> None:
        self._gather = gather
        self._index = index

    def answer(self, response: Any) -> None:
        self._gather.put(self._index, response)
