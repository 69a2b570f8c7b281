"""Third-party histories with known verdicts, from ../shared/data/histories (if it exists)."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from kraftlog_simulator.checkers.linearizability import LINEARIZABLE, NOT_LINEARIZABLE, Operation
from tests.house_rules import ROOT

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

FOLDER = os.path.join(os.path.dirname(ROOT), "shared", "data", "histories")

ETCD_LINE = re.compile(r"INFO +jepsen\.util - (\d+)\t:(\w+)\t:(\w+)\t(.+)")
STORE_LINE = re.compile(r'\{:process (\d+), :type :(\w+), :f :(\w+), :key "(\w+)", :value (.*)\}')


class History:
    """Builds operations from the events of a history; an event's position is its time."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._pending: dict[str, Operation] = {}
        self._position = 0

    def invoke(self, process: str, call: Hashable) -> None:
        self._position += 1
        self._pending[process] = operation = Operation(process, call, self._position)
        self.operations.append(operation)

    def end(self, process: str, result: Hashable) -> None:
        self._position += 1
        operation = self._pending.pop(process)
        operation.returned, operation.result = self._position, result


def etcd_history(text: str) -> list[Operation]:
    """A register in etcd. `:info` and failed reads have an unknown outcome."""
    history = History()
    for line in text.splitlines():
        match = ETCD_LINE.fullmatch(line)
        if not match:
            continue  # Jepsen's other log lines
        process, kind, function, value = match.groups()
        numbers = [int(n) for n in re.findall(r"\d+", value)]
        if kind == "invoke":
            history.invoke(process, (function, *numbers))
        elif value != ":timed-out":
            read = numbers[0] if numbers else None
            result = {"read": read, "write": None, "cas": kind == "ok"}[function]
            history.end(process, result)
    return history.operations


def store_history(text: str) -> list[Operation]:
    """A key-value store; every operation ends."""
    history = History()
    for line in text.splitlines():
        match = STORE_LINE.fullmatch(line)
        assert match, line
        process, kind, function, key, value = match.groups()
        value = value.strip('"')
        if kind == "invoke":
            history.invoke(process, (function, key) + (() if function == "get" else (value,)))
        else:
            history.end(process, value if function == "get" else None)
    return history.operations


def etcd_histories() -> Iterator[tuple[str, list[Operation], str]]:
    """Name, history and verdict of every register's log."""
    with open(os.path.join(FOLDER, "jepsen-verdicts.tsv")) as file:
        verdicts = [line.rstrip("\n").split("\t") for line in file]
    for name, verdict in verdicts:
        with open(os.path.join(FOLDER, "jepsen", f"{name}.log")) as file:
            yield name, etcd_history(file.read()), verdict


def store_histories() -> Iterator[tuple[str, list[Operation], str]]:
    for name in sorted(os.listdir(os.path.join(FOLDER, "kv"))):
        with open(os.path.join(FOLDER, "kv", name)) as file:
            text = file.read()
        yield name, store_history(text), LINEARIZABLE if "-ok" in name else NOT_LINEARIZABLE
