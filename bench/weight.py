"""`python -m bench.weight`: how much there is to read, to install and to import.

Lines are counted as `wc -l` does, of files that git has. The wheel is built, and a node is started
until it is ready, to see which modules it imports.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.house_rules import ROOT, import_circles_of_source

from bench.hops import ways

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What is counted, and the paths of its files as git takes them.
PARTS = {
    "lines of the product": ("src/*.py",),
    "lines of its Spark part": ("src/kraftlog/spark/*.py", "src/pyspark_kraftlog/*.py"),
    "lines of the simulator": ("simulator/src/*.py",),
    "lines of tests": ("tests/*.py", "tests/*.toml"),
    "lines of benchmarks": ("bench/*.py",),
    "lines of documentation": ("*.md",),
}
STOP_LIMIT_S = 60


def figures() -> Iterator[tuple[str, int]]:
    for what, patterns in PARTS.items():
        yield what, lines_of(patterns)
    with tempfile.TemporaryDirectory() as folder:
        yield "bytes of the wheel", wheel_bytes(folder)
    modules = imported_modules()
    yield "modules of a starting node", len(modules)
    yield "of these, kraftlog's", sum(name.startswith("kraftlog") for name in modules)
    circles = import_circles_of_source()
    yield "import circles", len(circles)
    yield "files of the largest one", max(map(len, circles), default=0)
    for what, way in ways():
        yield f"functions of {what}", way.hops


def lines_of(patterns: tuple[str, ...]) -> int:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, check=True, capture_output=True
    )
    names = [name for name in listed.stdout.decode().split("\0") if name]
    return sum(Path(ROOT, name).read_bytes().count(b"\n") for name in names)


def wheel_bytes(folder: str) -> int:
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", folder, ROOT], check=True)
    [wheel] = Path(folder).glob("*.whl")
    return wheel.stat().st_size


def imported_modules() -> set[str]:
    """The modules that a node has imported when it is ready."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as report:
        arguments = ["start", "--data", folder, "--port", "0"]
        node = subprocess.Popen(
            [sys.executable, "-X", "importtime", "-m", "kraftlog", *arguments],
            stdout=subprocess.PIPE,
            stderr=report,
            text=True,
        )
        try:
            assert node.stdout is not None
            line = node.stdout.readline()
            assert "ready" in line, f"the node is not ready: {line}"
        finally:
            node.terminate()
            node.communicate(timeout=STOP_LIMIT_S)
        report.seek(0)
        lines = [line for line in report if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines[1:]}


def main() -> None:
    for what, figure in figures():
        print(f"{what:<30} {figure:>10,}")


if __name__ == "__main__":
    main()
