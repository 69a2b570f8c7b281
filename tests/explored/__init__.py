"""Mutants for the explorer: each breaks a rule, and its `detected_by` invariant must detect it.

An entry of a TOML file here has a change of a function (see tests/altered.py), or several, or the
name of a mutant of `tests/mutants` that makes the same change. The changed modules are loaded again
for each mutant, so the product has no switches.
"""

from __future__ import annotations

import os
import sys
import tomllib
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kraftlog.value import Value
from tests.altered import AlteredFinder, Change
from tests.mutants import MUTANTS

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


class Mutant(Value):
    """`breaks` has the rule and the bug, `detected_by` is the invariant that detects it.

    `bound` has the fields of the smallest Bound within which the explorer finds the bug. If no
    invariant detects it, `detected_by` is empty, and the search must exhaust the bound.
    """

    breaks: str
    detected_by: str
    changes: tuple[Change, ...]
    bound: dict[str, Any]
    explores: tuple[str, str, str] = QUORUM
    #: The name of an invariant's function, if that invariant is not checked.
    unchecked_invariant: str = ""
    #: Whether its search takes ten seconds or more: only CI and `make explore` run it.
    is_slow: bool = False

    def altered(self, module: str, source: str) -> str:
        """The text of a module with the bug."""
        for change in self.changes:
            if change.module == module:
                source = change.altered(source)
        return source


def all_mutants() -> dict[str, Mutant]:
    """Every mutant by its name."""
    return {
        name: _mutant(entry, explores)
        for file, explores in (("quorum.toml", QUORUM), ("partition.toml", REPLICATION))
        for name, entry in _entries(file).items()
    }


def _entries(file: str) -> dict[str, dict[str, Any]]:
    with open(os.path.join(os.path.dirname(__file__), file), "rb") as toml:
        return tomllib.load(toml)


def _mutant(entry: dict[str, Any], explores: tuple[str, str, str]) -> Mutant:
    if "mutant" in entry:
        changes = [MUTANTS[entry.pop("mutant")].change]
    elif "changes" in entry:
        changes = [Change(**change) for change in entry.pop("changes")]
    else:
        changes = [Change(*[entry.pop(key, "") for key in Change._fields])]
    return Mutant(
        breaks=entry.pop("breaks"),
        detected_by=entry.pop("detected_by", ""),
        changes=tuple(changes),
        bound={key: _as_tuple(value) for key, value in entry.pop("bound").items()},
        explores=explores,
        **entry,
    )


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


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
    modules = {change.module: None for change in mutant.changes}
    finders = [AlteredFinder(module, partial(mutant.altered, module)) for module in modules]
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
