"""Responses to repeated requests, encoded once except for a few numbers."""

from __future__ import annotations

from struct import Struct

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Size and correlation id, at the start of a response.
RESPONSE_HEAD = Struct(">ii")


def split_around_numbers(write: Callable[[int], bytes], width: int) -> tuple[bytes, bytes]:
    """The bytes of a response before and after its numbers, without size and correlation id.

    The numbers are `width` adjacent bytes, found by encoding the response with two values.
    """
    zeros, ones = write(0), write(-1)
    start = next(i for i, (a, b) in enumerate(zip(zeros, ones, strict=True)) if a != b)
    return zeros[RESPONSE_HEAD.size : start], zeros[start + width :]
