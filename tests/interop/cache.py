"""Third-party software for tests, built once in `.cache` for all test processes.

An entry is named by a hash of its inputs. It is built in a temporary folder and renamed, so it is
always complete.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CACHE = os.path.join(ROOT, ".cache")


class UnavailableError(Exception):
    """Third-party software is not available; the message says which, and what to do."""


def run(command: Sequence[str], seconds: int, complaint: str, cwd: str | None = None) -> None:
    """Run a command; raise UnavailableError if it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as e:
        raise UnavailableError(f"{complaint}: not finished after {seconds} s") from e
    if done.returncode != 0:
        last_lines = " | ".join(done.stdout.strip().splitlines()[-5:])
        raise UnavailableError(f"{complaint}: {last_lines}")


def made_once(name: str, make: Callable[[str], None]) -> str:
    """`.cache/name`, built by `make(folder)` if it does not exist."""
    folder = os.path.join(CACHE, name)
    if os.path.isdir(folder):
        return folder
    with _lock(name):
        if not os.path.isdir(folder):
            unfinished = f"{folder}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            os.makedirs(unfinished)
            make(unfinished)
            os.rename(unfinished, folder)
    return folder


@contextmanager
def _lock(name: str) -> Iterator[None]:
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, f"{name}.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]
