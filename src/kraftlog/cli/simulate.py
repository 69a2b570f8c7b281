"""`kraftlog simulate`: the command of the simulator, a distribution of its own."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SIMULATOR = "kraftlog_simulator"


def run(arguments: Sequence[str]) -> int:
    if missing := missing_simulator():
        print(f"kraftlog simulate: {missing}", file=sys.stderr)
        return 1
    simulate: Callable[[Sequence[str]], int] = import_module(f"{SIMULATOR}.command").run
    return simulate(arguments)


def missing_simulator() -> str:
    """How to install the simulator; empty if it is installed."""
    if find_spec(SIMULATOR) is not None:
        return ""
    advice = "install it from kraftlog's clone with pip install ./simulator"
    return f"not installed: kraftlog-simulator; {advice}"
