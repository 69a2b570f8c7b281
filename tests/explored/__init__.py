"""Mutants for the explorer: each breaks a rule, and its `detected_by` invariant must detect it.

Each file here names a module, a piece of its text, and the replacement. The piece is replaced in a
fresh copy of the module, so the product has no switches; a piece that does not occur exactly once
is an error.
"""

from __future__ import annotations

import pkgutil
import sys
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kraftlog.value import Value
from tests.altered import AlteredFinder, replaced_once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog_simulator.explorer.search import Outcome

#: The packages that are loaded again: those that mutants change, and the explorer that runs them.
RELOADED_PACKAGES = (
    "kraftlog.raft",
    "kraftlog.replication",
    "kraftlog.controller",
    "kraftlog.node",
    "kraftlog_simulator.explorer",
)
#: An explorer: the module of its Bound, the module of its state space, and the class of that space.
QUORUM = "bounds", "quorum_space", "QuorumSpace"
REPLICATION = "replication.bounds", "replication.space", "ReplicationSpace"


class Edit(Value):
    """A piece of the text of a module, and its replacement."""

    module: str
    original: str
    replacement: str

    def edited(self, source: str) -> str:
        return replaced_once(self.module, source, self.original, self.replacement)


class Mutant(Value):
    """`breaks` has the rule and the bug, `detected_by` is the invariant that detects it.

    `bound` has the fields of the smallest Bound within which the explorer finds the bug. If no
    invariant detects it, `detected_by` is empty, and the search must exhaust the bound.
    """

    breaks: str
    detected_by: str
    module: str
    original: str
    replacement: str
    bound: dict[str, Any]
    explores: tuple[str, str, str] = QUORUM
    #: Further edits, if a single one does not make the bug.
    more_edits: tuple[Edit, ...] = ()
    #: The name of an invariant's function, if that invariant is not checked.
    unchecked_invariant: str = ""
    #: Whether its search takes tens of seconds.
    is_slow: bool = False

    @property
    def edits(self) -> tuple[Edit, ...]:
        return (Edit(self.module, self.original, self.replacement), *self.more_edits)

    def edited(self, module: str, source: str) -> str:
        """The text of a module with the bug."""
        for edit in self.edits:
            if edit.module == module:
                source = edit.edited(source)
        return source


def all_mutants() -> dict[str, Mutant]:
    """Every mutant by the name of its file."""
    names = sorted([module.name for module in pkgutil.iter_modules(__path__)])
    names.remove("__main__")
    return {name: import_module(f"{__name__}.{name}").MUTANT for name in names}


def explore_mutant(name: str, mutant: Mutant) -> Outcome:
    """Explore the modules with the mutant's bug; return the outcome."""
    with loaded_mutant(mutant):
        *modules, space_class = mutant.explores
        bounds, spaces, invariants, search = [
            import_module(f"kraftlog_simulator.explorer.{module}")
            for module in (*modules, "invariants", "search")
        ]
        if mutant.unchecked_invariant:
            assert hasattr(invariants, mutant.unchecked_invariant), mutant.unchecked_invariant
            setattr(invariants, mutant.unchecked_invariant, lambda *_: None)
        space = getattr(spaces, space_class)(bounds.Bound(name=name, **mutant.bound))
        outcome: Outcome = search.explore(space)
        return outcome


def is_as_expected(mutant: Mutant, outcome: Outcome) -> bool:
    if mutant.detected_by:
        return outcome.broken.startswith(mutant.detected_by)
    return outcome.exhausted


@contextmanager
def loaded_mutant(mutant: Mutant) -> Iterator[None]:
    """Within this context, importing the modules of RELOADED_PACKAGES loads the mutant."""
    edited_modules = {edit.module: None for edit in mutant.edits}
    finders = [AlteredFinder(module, partial(mutant.edited, module)) for module in edited_modules]
    original_modules = {
        name: sys.modules.pop(name)
        for name in list(sys.modules)
        if name.startswith(RELOADED_PACKAGES)
    }
    parents = {
        name: sys.modules[name]
        for name in ("kraftlog", "kraftlog_simulator")
        if name in sys.modules
    }
    attributes = {name: dict(vars(parent)) for name, parent in parents.items()}
    sys.meta_path[:0] = finders
    try:
        yield
    finally:
        del sys.meta_path[: len(finders)]
        for name in list(sys.modules):
            if name.startswith(RELOADED_PACKAGES):
                del sys.modules[name]
        sys.modules.update(original_modules)
        for name, parent in parents.items():
            vars(parent).update(attributes[name])
