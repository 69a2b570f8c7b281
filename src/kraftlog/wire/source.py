"""The text of a function that is being written, with the objects it refers to."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


class Source:
    """Lines of a function under construction, with the objects that its text refers to."""

    def __init__(self, head: str) -> None:
        self.lines = [head]
        self.depth = 1
        self.scope: dict[str, Any] = {}
        self._named: dict[int, str] = {}
        self._counter = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        """A local name that no other part of the function uses."""
        self._counter += 1
        return f"{stem}{self._counter}"

    def refer(self, stem: str, thing: Any) -> str:
        """The name under which the text may use an object."""
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
        scope = dict(self.scope)
        exec(compile(self.text(), f"<{title}>", "exec"), scope)  # noqa: S102 - our own text
        return scope[name]


class Block:
    def __init__(self, source: Source) -> None:
        self.source = source

    def __enter__(self) -> None:
        self.source.depth += 1

    def __exit__(self, *_: object) -> None:
        self.source.depth -= 1


#: After how many items of arrays a stepwise reader or writer pauses.
ITEMS_IN_A_STEP = 100


def begin_steps(out: Source) -> None:
    """The function is a generator: it yields how many items it has read or written since."""
    out.line("work = 0")


def count_item(out: Source) -> None:
    out.line("work += 1")
    with out.block(f"if work >= {ITEMS_IN_A_STEP}:"):
        out.line("yield work")
        out.line("work = 0")
