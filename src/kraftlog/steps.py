"""Work in steps: a generator that does a bounded piece of work between two `yield`s.

It yields what that has cost, in units of about a microsecond. Costs are counted, never measured, so
that the simulator does the same again. Who drives it may let others have their turn in between.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, MutableSequence
    from typing import Any, TypeVar

    T = TypeVar("T")

#: So many items of a list are let go of in a step, each for half a microsecond.
LET_GO_AT_ONCE = 100


def result_of(steps: Generator[Any, None, T]) -> T:
    """Run all steps at once and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what the generator returns


def drained(items: Iterable[T]) -> Iterator[T]:
    """The items one by one, each let go of as it is taken: no step frees them all at once.

    A list is emptied by that: to copy a giant one takes long, too.
    """
    waiting = items if isinstance(items, list) else list(items)
    waiting.reverse()
    del items
    while waiting:
        yield waiting.pop()


def letting_go_of(message: Any) -> Iterator[int]:
    """Empty the lists of a message that nobody else may hold."""
    for name in message._fields:
        items = getattr(message, name)
        if isinstance(items, list):
            yield from letting_go(items)


def letting_go(items: MutableSequence[Any]) -> Iterator[int]:
    """Empty a list of objects that nobody else may hold: to free them takes its time, too."""
    while items:
        count = min(len(items), LET_GO_AT_ONCE)
        del items[-count:]
        yield (count + 1) // 2
