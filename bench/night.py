"""`python -m bench night [NAME …]`: measure the sections of the page that are missing or stale.

Each command runs by itself, so a failure, or a benchmark that hangs, costs only its own sections:
the error is stored, shown on the page, and tried again by the next night. What is measured is
stored at once: a night that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from tests.interop.cache import CACHE, ROOT

from bench import stamps
from bench.sections import BY_NAME, SECTIONS
from bench.stamps import code_of, duration_text, has_changed, stale_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.sections import Section
    from bench.stamps import Code, Stamps

LOGS = os.path.join(CACHE, "bench", "night")
ALL = "all"
#: A command is stopped after this many times its estimate, and at least after the minimum.
PATIENCE, PATIENCE_MIN_S = 4, 900
#: Time for a stopped command to end its processes.
STOP_WITHIN_S = 60
ERROR_CHARS = 300


@dataclass(frozen=True)
class Options:
    """Which sections to measure, and whether only as a trial."""

    only: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    if_changed: bool = False
    is_quick: bool = False


def main(arguments: Sequence[str]) -> int:
    options, is_list = parse_arguments(arguments)
    stored = stamps.load(stamps.store_of(is_full=not options.is_quick))
    due = plan(options, stored, {section.name: code_of(section) for section in SECTIONS})
    if is_list:
        print_list(due, stored)
        return 0
    print(f"{len(due)} sections, about {duration_text(estimate_s(due, stored))}", flush=True)
    failed = run_all(due, options, stored.path)
    for name, error in failed.items():
        print(f"failed: {name}: {error}")
    return 1 if failed else 0


def parse_arguments(arguments: Sequence[str]) -> tuple[Options, bool]:
    parser = argparse.ArgumentParser("python -m bench night", description=__doc__)
    parser.add_argument("only", nargs="*", metavar="NAME", help="only these, if they are due")
    parser.add_argument("--only", dest="more", action="append", default=[], help="likewise")
    parser.add_argument(
        "--again", action="append", default=[], metavar="NAME", help=f"also if not due; or `{ALL}`"
    )
    parser.add_argument("--changed", action="store_true", help="all whose code has changed since")
    parser.add_argument("--list", action="store_true", help="show what is due and why; no run")
    parser.add_argument("--quick", action="store_true", help="a little of everything, to try it")
    options = parser.parse_args(arguments)
    only = (*options.only, *options.more)
    for name in (*only, *options.again):
        if name != ALL and not named(name):
            parser.error(f"no section {name!r}; there are {', '.join(BY_NAME)}")
    return Options(only, tuple(options.again), options.changed, options.quick), options.list


def named(name: str) -> list[str]:
    """The sections of a name: itself, or all cases of a command such as `beside`."""
    return [each for each in BY_NAME if name == each or name == each.partition(" ")[0]]


def plan(options: Options, stored: Stamps, codes: Mapping[str, Code]) -> dict[str, str]:
    """The sections to measure, in the order of the page, and why."""
    only = {each for name in options.only for each in named(name)}
    again = {each for name in options.again for each in (BY_NAME if name == ALL else named(name))}
    due = {}
    for name in BY_NAME:
        if options.only and name not in only:
            continue
        reason = due_reason(name, stored, codes[name], options)
        if name in again:
            reason = "asked for"
        if options.again and not options.only and name not in again:
            reason = ""
        if reason:
            due[name] = reason
    return due


def due_reason(name: str, stored: Stamps, code: Code, options: Options) -> str:
    """Why a section should be measured; empty if it need not."""
    stamp = stored.measured.get(name)
    if name in stored.failed:
        return "the last attempt failed"
    if stamp is None:
        return "not measured yet"
    if not stamp.commit:
        return "its commit was not recorded"
    if reason := stale_reason(stamp, code):
        return reason
    return "its code has changed since" if options.if_changed and has_changed(stamp, code) else ""


def estimate_s(names: Sequence[str] | Mapping[str, str], stored: Stamps) -> float:
    """How long these sections take: as the last time, else as their `minutes` say."""
    seconds = 0.0
    for name in names:
        stamp = stored.measured.get(name)
        seconds += stamp.seconds if stamp and stamp.seconds else BY_NAME[name].minutes * 60
    return seconds


def commands(names: Sequence[str] | Mapping[str, str]) -> list[list[Section]]:
    """The sections of each command to run."""
    grouped = groupby([BY_NAME[name] for name in names], lambda it: it.shares or it.name)
    return [list(sections) for _, sections in grouped]


def arguments_of(sections: Sequence[Section]) -> list[str]:
    """The arguments of `python -m bench` that measure these sections together."""
    first, *_ = sections[0].name.split()
    return [first, *[word for section in sections for word in section.name.split()[1:]]]


def print_list(due: Mapping[str, str], stored: Stamps) -> None:
    for section in SECTIONS:
        stamp = stored.measured.get(section.name)
        when = f"{stamp.began[:10]} {stamp.commit}" if stamp else ""
        takes = duration_text(estimate_s([section.name], stored))
        print(f"{section.name:<22}{takes:>8}  {when:<22} {due.get(section.name, 'measured')}")
    print(f"{len(due)} sections are due, about {duration_text(estimate_s(due, stored))}")


def run_all(due: Mapping[str, str], options: Options, store: str) -> dict[str, str]:
    """Run the commands of the due sections; return the errors of those that failed."""
    failed: dict[str, str] = {}
    groups = commands(due)
    for number, sections in enumerate(groups, 1):
        stored = stamps.load(store)
        names = [section.name for section in sections]
        takes_s = estimate_s(names, stored)
        left_s = estimate_s([it.name for rest in groups[number - 1 :] for it in rest], stored)
        end = datetime.now() + timedelta(seconds=left_s)  # noqa: DTZ005 - the clock on the wall
        print(
            f"[{number}/{len(groups)}] {', '.join(names)}: about {duration_text(takes_s)}, "
            f"all until {end:%H:%M}",
            flush=True,
        )
        stamp, start = stamps.begin(), time.perf_counter()
        words = [*arguments_of(sections), *["--quick"] * options.is_quick]
        log = os.path.join(LOGS, f"{'-'.join(words)}.log")
        error = run(
            [sys.executable, "-m", "bench", *words], log, max(PATIENCE * takes_s, PATIENCE_MIN_S)
        )
        took = duration_text(time.perf_counter() - start)
        errors = unmeasured(names, store, stamp, error)
        for name, text in errors.items():
            print(f"    failed after {took}: {name}: {text} ({os.path.relpath(log)})", flush=True)
        if not errors:
            print(f"    measured in {took}", flush=True)
        failed |= errors
    return failed


def unmeasured(
    names: Sequence[str], store: str, attempt: stamps.Stamp, error: str
) -> dict[str, str]:
    """Store the error of each section that the command has not stored as measured."""
    stored = stamps.load(store)
    errors = {}
    for name in names:
        stamp = stored.measured.get(name)
        if stamp is None or stamp.time < attempt.time:
            errors[name] = error or "the command ended without a result"
            stored.record(name, replace(attempt, error=errors[name]))
    stored.save()
    if store == stamps.STORE:
        stamps.write_stamps(stored)
    return errors


def run(command: Sequence[str], log: str, limit_s: float) -> str:
    """Run a command in a process group of its own; return the error if it fails.

    Nothing of the group is left afterwards, also if this process is told to stop.
    """
    os.makedirs(os.path.dirname(log), exist_ok=True)
    # A signal that came between the start of the group and `try` would leave the group behind.
    held = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, held),  # noqa: PLW1509 - there is one thread
        )
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        code = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return f"stopped after {duration_text(limit_s)}"
    finally:
        end_group(process)
    return last_line(log) or f"exit code {code}" if code else ""


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it has started."""
    if process.poll() is None:
        _signal(process, os.kill, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_WITHIN_S)
    _signal(process, os.killpg, signal.SIGKILL)
    process.wait()


def _signal(
    process: subprocess.Popen[bytes], send: Callable[[int, int], None], number: signal.Signals
) -> None:
    with suppress(ProcessLookupError):
        send(process.pid, number)


def last_line(log: str) -> str:
    """The last line of a log, in one line of the page."""
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return lines[-1].replace("*", "")[:ERROR_CHARS] if lines else ""
