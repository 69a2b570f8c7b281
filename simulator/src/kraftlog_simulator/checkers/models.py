"""Sequential models for checking histories."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.checkers.linearizability import Model

if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Any


class Register(Model):
    """One value, None at first, with the calls `read`, `write` and `cas` (compare and swap).

    `("read",)` returns the value, `("write", new)` None, `("cas", old, new)` whether it swapped.
    """

    def apply(self, state: Hashable, call: Any) -> tuple[Hashable, Hashable]:
        match call:
            case ("read",):
                return state, state
            case ("write", new):
                return new, None
            case ("cas", old, new):
                return (new, True) if state == old else (state, False)
        raise ValueError(f"a register knows read, write and cas, not {call!r}")

    def changes_nothing(self, call: Any, result: Hashable) -> bool:
        return call[0] == "read" or (call[0] == "cas" and result is False)


class KeyValue(Model):
    """A text for each key, "" at first.

    The calls are `("get", key)`, `("put", key, text)` and `("append", key, text)`.
    """

    initial = ""

    def key(self, call: Any) -> Hashable:
        key: Hashable = call[1]
        return key

    def apply(self, state: str, call: Any) -> tuple[Hashable, Hashable]:
        match call:
            case ("get", _):
                return state, state
            case ("put", _, text):
                return text, None
            case ("append", _, text):
                return state + text, None
        raise ValueError(f"a key-value store knows get, put and append, not {call!r}")

    def changes_nothing(self, call: Any, result: Hashable) -> bool:  # noqa: ARG002 - a get changes nothing
        return bool(call[0] == "get")
