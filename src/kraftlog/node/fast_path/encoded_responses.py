"""What answers to requests that repeat have in common: all but a few numbers."""

from __future__ import annotations

from struct import Struct

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: The length and the correlation id in front of an answer.
ANSWER_HEAD = Struct(">ii")


def around_numbers(write: Callable[[int], bytes], width: int) -> tuple[bytes, bytes]:
    """What stands before and behind the numbers that `write` puts into an answer behind its head.

    They are `width` bytes in one place, found by writing the answer in two ways.
    """
    zeros, ones = write(0), write(-1)
    at = next(i for i, (a, b) in enumerate(zip(zeros, ones, strict=True)) if a != b)
    return zeros[ANSWER_HEAD.size : at], zeros[at + width :]
