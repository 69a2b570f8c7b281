"""The source of a generated function, and the objects that it refers to."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


class Source:
    """The lines of a function, and the objects that they refer to."""

    def __init__(self, head: str) -> None:
        self.lines = [head]
        self.depth = 1
        self.scope: dict[str, Any] = {}
        self._named: dict[int, str] = {}
        self._counter = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        """An unused local name."""
        self._counter += 1
        return f"{stem}{self._counter}"

    def refer(self, stem: str, thing: Any) -> str:
        """The name by which the source refers to an object."""
        name = self._named.get(id(thing))
        if name is None:
            name = self.fresh(stem)
            self._named[id(thing)] = name
            self.scope[name] = thing
        return name

    def block(self, text: str) -> Block:
        self.line(text)
        return Block(self)

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def build(self, name: str, title: str) -> Any:
        """Compile the source and return its function `name`; tracebacks show `title`."""
        scope = dict(self.scope)
        exec(compile(self.text(), f"<{title}>", "exec"), scope)  # noqa: S102 - our own text
        return scope[name]


class Block:
    """Indents the lines that are added within a `with` statement."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def __enter__(self) -> None:
        self.source.depth += 1

    def __exit__(self, *_: object) -> None:
        self.source.depth -= 1


#: The array items in a step of a stepwise reader or writer.
ITEMS_PER_STEP = 100


def begin_steps(out: Source) -> None:
    """Emit the counter of the items in a step; `count_item` emits the yields."""
    out.line("work = 0")


def count_item(out: Source) -> None:
    """Emit the count of one item, and the yield that ends a step of `ITEMS_PER_STEP` items."""
    out.line("work += 1")
    with out.block(f"if work >= {ITEMS_PER_STEP}:"):
        out.line("yield work")
        out.line("work = 0")
