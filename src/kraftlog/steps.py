"""Long work in steps: generators that do a bounded amount of work between two `yield`s.

Each step yields its cost in units of about a microsecond. Costs are counted, never measured, so
that simulator runs are reproducible. The caller may serve other requests between two steps.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, MutableSequence, MutableSet
    from typing import Any, TypeVar

    T = TypeVar("T")

#: Items of a list that are freed in one step; each takes half a microsecond.
ITEMS_FREED_PER_STEP = 100


def result_of(steps: Generator[Any, None, T]) -> T:
    """Run all steps at once and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what the generator returns


def drained(items: Iterable[T]) -> Iterator[T]:
    """Yield the items one by one and drop each, so that they are not all freed in one step.

    A list is emptied in place, because copying a giant one takes long, too.
    """
    remaining = items if isinstance(items, list) else list(items)
    remaining.reverse()
    del items
    while remaining:
        yield remaining.pop()


def free_message_in_steps(message: Any) -> Iterator[int]:
    """Empty a message's lists in steps; nothing else may use these lists."""
    for name in message._fields:
        items = getattr(message, name)
        if isinstance(items, list):
            yield from free_in_steps(items)


def free_if_empty(items: MutableSet[Any]) -> None:
    """Free the memory of a set that was large and has become empty: a set never shrinks."""
    if not items:
        items.clear()


def free_in_steps(items: MutableSequence[Any]) -> Iterator[int]:
    """Empty a list in steps, as freeing many objects takes long; nothing else may use the list."""
    while items:
        count = min(len(items), ITEMS_FREED_PER_STEP)
        del items[-count:]
        yield (count + 1) // 2
