"""Mutants for the explorer: each breaks a rule of the core, and an invariant must detect it.

Each file here names a module, a piece of its text, and the replacement. The text is replaced in a
fresh copy of the modules, so the product has no switches; a piece that does not occur exactly once
is an error.
"""

from __future__ import annotations

import pkgutil
import sys
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kraftlog.value import Value
from tests.altered import AlteredFinder, replaced_once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kraftlog.simulator.explorer.search import Outcome

#: The modules that are loaded again: the core, and the explorer that runs it.
FRESH = ("kraftlog.raft", "kraftlog.simulator.explorer")


class Mutant(Value):
    """`rule` describes the bug, `detected_by` is the invariant that detects it.

    `bound` has the fields of the smallest explorer's Bound in which it is found. If no invariant
    detects it, `detected_by` is empty, and the search must exhaust the bound.
    """

    rule: str
    detected_by: str
    module: str
    original: str
    replacement: str
    bound: dict[str, Any]
    #: An invariant that is not checked: the name of its function.
    without: str = ""
    #: Whether it takes tens of seconds.
    is_slow: bool = False

    def mutated(self, source: str) -> str:
        return replaced_once(self.module, source, self.original, self.replacement)


def all_mutants() -> dict[str, Mutant]:
    """Every mutant by the name of its file."""
    names = sorted([found.name for found in pkgutil.iter_modules(__path__)])
    names.remove("__main__")
    return {name: import_module(f"{__name__}.{name}").MUTANT for name in names}


def explored(name: str, mutant: Mutant) -> Outcome:
    """The explorer's outcome for a core with this bug."""
    with grown(mutant):
        bounds = import_module("kraftlog.simulator.explorer.bounds")
        invariants = import_module("kraftlog.simulator.explorer.invariants")
        search = import_module("kraftlog.simulator.explorer.search")
        if mutant.without:
            assert hasattr(invariants, mutant.without), mutant.without
            setattr(invariants, mutant.without, lambda *_: None)
        outcome: Outcome = search.explore(bounds.Bound(name=name, **mutant.bound))
        return outcome


def is_as_expected(mutant: Mutant, outcome: Outcome) -> bool:
    if mutant.detected_by:
        return outcome.broken.startswith(mutant.detected_by)
    return outcome.exhausted


@contextmanager
def grown(mutant: Mutant) -> Iterator[None]:
    """Within this context, importing the modules of FRESH loads the mutant."""
    finder = AlteredFinder(mutant.module, mutant.mutated)
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(FRESH)}
    parents = {
        name: sys.modules[name]
        for name in ("kraftlog", "kraftlog.simulator")
        if name in sys.modules
    }
    attributes = {name: dict(vars(parent)) for name, parent in parents.items()}
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in list(sys.modules):
            if name.startswith(FRESH):
                del sys.modules[name]
        sys.modules.update(kept)
        for name, parent in parents.items():
            vars(parent).update(attributes[name])
