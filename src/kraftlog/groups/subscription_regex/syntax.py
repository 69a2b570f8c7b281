"""The tree of a regular expression, and what it costs to run."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Limits that re2j lacks: the characters of an expression, its groups within groups, and its
#: instructions. A counted repetition has its instructions as often as it repeats them.
MAX_CHARACTERS = 4_096
MAX_DEPTH = 100
MAX_SIZE = 4_096


class PatternError(ValueError):
    """Not a valid regular expression; the message is re2j's description, which Kafka returns."""


class Node(Value):
    """A part of an expression; `size` is the number of its instructions."""

    size: int


class Characters(Node):
    """Any one character of a class (kraftlog.groups.subscription_regex.classes)."""

    mask: int


class Assertion(Node):
    """Matches no characters, but only at some places: one of the kinds below."""

    kind: int


BEGIN, END, BOUNDARY, NO_BOUNDARY = range(4)


class Concat(Node):
    parts: Sequence[Node]


class Alternate(Node):
    parts: Sequence[Node]


class Repeat(Node):
    """At least `least` and at most `most` times; None: any number of times."""

    part: Node
    least: int
    most: int | None


EMPTY = Concat(0, ())


def characters(mask: int) -> Node:
    return Characters(1, mask)


def assertion(kind: int) -> Node:
    return Assertion(1, kind)


def concat(parts: Sequence[Node]) -> Node:
    if len(parts) == 1:
        return parts[0]
    return Concat(_limited(sum([part.size for part in parts])), parts)


def alternate(parts: Sequence[Node]) -> Node:
    if len(parts) == 1:
        return parts[0]
    classes = [part.mask for part in parts if isinstance(part, Characters)]
    if len(classes) == len(parts):
        mask = 0
        for each in classes:
            mask |= each
        return characters(mask)
    return Alternate(_limited(sum([part.size for part in parts]) + 1), parts)


def repeat(part: Node, least: int, most: int | None) -> Node:
    if not part.size:
        return part
    optional = 1 if most is None else most - least
    size = part.size * (least + optional) + optional
    return Repeat(_limited(size), part, least, most)


def _limited(size: int) -> int:
    if size > MAX_SIZE:
        raise PatternError(
            f"expression needs {size} instructions, at most {MAX_SIZE} are supported"
        )
    return size
