"""A mutant: a module with one snippet replaced, loaded instead of the real one.

    python -m tests.mutants.mutant NAME [FIRST COUNT [SCENARIO …]]

plays the mutant's pinned run, or so many seeds of each scenario from FIRST on, and says what
killed it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType


class Mutant(NamedTuple):
    """`source` stands exactly once in `module`; the run of `scenario` and `seed` must fail."""

    module: str
    source: str
    replacement: str
    scenario: str
    seed: int


class _Loader(SourceFileLoader):
    """Compiles the changed text, whatever is cached."""

    mutant: Mutant

    def get_code(self, fullname: str) -> CodeType:
        text = self.get_source(fullname) or ""
        count = text.count(self.mutant.source)
        if count != 1:
            raise ValueError(f"{fullname} holds the snippet {count} times: {self.mutant.source}")
        changed = text.replace(self.mutant.source, self.mutant.replacement)
        code: CodeType = compile(changed, self.path, "exec")
        return code


class _Finder(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != self.mutant.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        loader = _Loader(fullname, spec.origin)
        loader.mutant = self.mutant
        spec.loader = loader
        return spec


def named(name: str) -> Mutant:
    mutant: Mutant = import_module(f"tests.mutants.{name}").MUTANT
    return mutant


def main(words: list[str]) -> int:
    """0 when the mutant was killed."""
    mutant = named(words[0])
    sys.meta_path.insert(0, _Finder(mutant))
    from kraftlog.simulator.run import simulate
    from kraftlog.simulator.scenarios import SCENARIOS

    assert mutant.module in sys.modules, "the simulator does not use this module"
    runs = [(mutant.scenario, mutant.seed)]
    if len(words) > 1:
        first, count = int(words[1]), int(words[2])
        runs = [
            (name, seed) for seed in range(first, first + count) for name in words[3:] or SCENARIOS
        ]
    for number, (scenario, seed) in enumerate(runs, 1):
        outcome = simulate(scenario, seed)
        if outcome.failed:
            print(f"killed by run {number}: {outcome}")
            return 0
    print(f"survived {len(runs)} runs")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
