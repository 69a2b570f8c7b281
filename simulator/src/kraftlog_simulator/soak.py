"""`kraftlog simulate --soak`: run seed after seed on all cores until stopped.

Failures are printed and stored in `failures.txt`, the next seed in `next-seed`.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.coverage import missing
from kraftlog_simulator.run import scenario_of, simulate
from kraftlog_simulator.workers import begin_worker

if TYPE_CHECKING:
    from typing import Any

    from kraftlog_simulator.run import Outcome

#: How many seeds a task runs: one or two seconds of work, as a stop waits for running tasks.
SEEDS_PER_TASK = 10
RUNS_PER_REPORT = 1000


class Soak:
    """Runs seed after seed; the progress is stored in `folder`."""

    def __init__(self, folder: str, first: int | None = None) -> None:
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.first = self.next_seed = first if first is not None else self._stored_next_seed()
        self.runs = self.failed = 0
        self.coverage: dict[str, int] = {}
        #: The first seeds of finished tasks from `next_seed` on.
        self._done: set[int] = set()
        self.stopping = False

    def _stored_next_seed(self) -> int:
        try:
            with open(os.path.join(self.folder, "next-seed"), encoding="ascii") as file:
                return int(file.read())
        except FileNotFoundError:
            return 1

    def record_task(self, first: int, outcomes: list[Outcome]) -> None:
        """Record a finished task; `next-seed` advances to the first seed that is not finished."""
        for outcome in outcomes:
            self.runs += 1
            for situation, times in outcome.coverage.items():
                self.coverage[situation] = self.coverage.get(situation, 0) + times
            if outcome.failed:
                self.failed += 1
                print(outcome, flush=True)
                with open(os.path.join(self.folder, "failures.txt"), "a") as file:
                    print(outcome, file=file)
        self._done.add(first)
        while self.next_seed in self._done:
            self._done.remove(self.next_seed)
            self.next_seed += SEEDS_PER_TASK
        self._store_next_seed()

    def _store_next_seed(self) -> None:
        with open(os.path.join(self.folder, "next-seed"), "w", encoding="ascii") as file:
            print(self.next_seed, file=file)

    def __str__(self) -> str:
        return f"{self.runs} runs, {self.failed} failed; the next seed is {self.next_seed}"

    def stop(self, *_: Any) -> None:
        self.stopping = True

    def run(self) -> int:
        """Run until stopped; return 0 if no run has failed."""
        processes = os.cpu_count() or 1
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.stop)
        print(f"from seed {self.first} on, {processes} at a time; Ctrl-C ends it", flush=True)
        self._store_next_seed()
        with ProcessPoolExecutor(processes, get_context("spawn"), begin_worker) as pool:
            tasks: dict[Future[list[Outcome]], int] = {}
            upcoming = self.first
            while tasks or not self.stopping:
                while len(tasks) < processes and not self.stopping:
                    tasks[pool.submit(play, upcoming)] = upcoming
                    upcoming += SEEDS_PER_TASK
                for task in wait(tasks, return_when=FIRST_COMPLETED).done:
                    self.record_task(tasks.pop(task), task.result())
                    if self.runs % RUNS_PER_REPORT == 0:
                        print(self, flush=True)
        if never := missing(self.coverage):
            print(f"never occurred: {', '.join(never)}")
        print(self)
        return 1 if self.failed else 0


def play(first: int) -> list[Outcome]:
    """Run the seeds of a task, in a worker process; outcomes are returned without fault plans."""
    seeds = range(first, first + SEEDS_PER_TASK)
    return [simulate(scenario_of(seed), seed).replace(plan=()) for seed in seeds]
