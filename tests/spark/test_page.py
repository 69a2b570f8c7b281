"""The blocks of the pages about Spark, typed one after the other, print what the pages show.

Pipelines run in this process, in the session that the tests share; one that is put into the
background runs in a shell, as do all other commands. A comment in a page, such as
`<!-- test: damage -->`, names what happens before the next block: a method of `Typist`.

PAGE=write python -m pytest -m long tests/spark/test_page.py    write the output into the pages
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kraftlog import Client
from kraftlog.cli import main
from tests.server.node_process import NodeProcess, read_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.slow]
#: In this order, as each builds upon what the ones before have made.
PAGES = [
    Path(__file__).parents[2] / "docs" / f"{name}.md"
    for name in (
        "use/spark",
        "use/spark-read",
        "use/spark-write",
        "use/spark-replay",
        "use/spark-archive",
        "use/spark-iceberg",
        "use/verify",
        "use/spark-metadata",
        "use/spark-running",
        "change/simulator-on-spark",
    )
]
BLOCK = re.compile(
    r"(?:<!-- test: (?P<action>.*?) -->\n)?^```(?P<kind>console|python)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
ADDRESS = "127.0.0.1:9092"
#: The offset in the page's example of --diff.
OFFSET = "74"
#: The directories that the page's commands write or read.
DIRECTORIES = ("lake", "lake/orders", "copy", "ice", "runs", "history")
#: A line of progress: it depends on the speed of the machine, and a first one says that Spark
#: starts, which has started here.
PROGRESS = re.compile(r"(?m)^(archive|verify|replay|simulate): (starting Spark|[\d,]+ ).*\n")
#: What bash says of a process that was killed.
KILLED = re.compile(r"bash: line \d+: +\d+ Killed|$")
#: A command `kraftlog` for the node of the test, whose process is the command's own.
SCRIPT = """#!/bin/sh
exec {python} -m kraftlog "$@" -b {address}
"""
END = "end of the output"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[str]:
    started = NodeProcess(str(tmp_path / "data"), errors=str(tmp_path / "errors.txt"), topics={})
    yield started.address
    started.kill_if_running()


def test_the_blocks_print_what_the_page_shows(
    spark: SparkSession, node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown, expected = [], []
    with Typist(node, tmp_path) as typist:
        for page in PAGES:
            text = page.read_text()
            new = BLOCK.sub(typist.typed, text)
            if os.environ.get("PAGE") == "write":
                page.write_text(new)
            shown += [comparable(block["text"]) for block in BLOCK.finditer(new)]
            expected += [comparable(block["text"]) for block in BLOCK.finditer(text)]
    assert shown == expected


class Typist:
    """Types the page's blocks: into a shell, into Python, or as a pipeline of this process."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address, self._folder = address, folder
        self._names: dict[str, Any] = {}
        self._code = 0
        self._offset = OFFSET
        script = folder / "bin" / "kraftlog"
        script.parent.mkdir()
        script.write_text(SCRIPT.format(python=sys.executable, address=address))
        script.chmod(0o700)
        self._shell = subprocess.Popen(
            ["bash"],
            env={**os.environ, "PATH": f"{script.parent}:{os.environ['PATH']}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
        )

    def __enter__(self) -> Typist:
        return self

    def __exit__(self, *_: object) -> None:
        self._shell.communicate()

    def typed(self, block: re.Match[str]) -> str:
        """The block with the output of its commands."""
        action, text = block["action"] or "", block["text"]
        if action.startswith("not run: "):
            return block[0]
        if action:
            getattr(self, action)()
        if block["kind"] == "python":
            self._run_python(text)
            return block[0]
        new = "".join(
            f"$ {command}\n{self._output(command, expected)}"
            for command, expected in COMMAND.findall(text)
        )
        return block[0].replace(text, new)

    def _run_python(self, text: str) -> None:
        """Execute a block; what follows a print in a comment must be what it prints."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(text.replace(ADDRESS, self._address), self._names)
        printed = out.getvalue().splitlines()
        expected = re.findall(r"(?m)^print\(.*\)  # (.*)$", text)
        assert [line for line in printed if not re.match(r"[+|]|only |$", line)] == expected

    def _output(self, command: str, expected: str) -> str:
        if command == "echo $?":
            return f"{self._code}\n"
        if not command.startswith("kraftlog pipeline ") or command.endswith("&"):
            return PROGRESS.sub("", self._shell_output(command))
        words = shlex.split(command)[1:]
        if "simulate" not in words:
            words += ["-b", self._address]
        # The session's processes run in another directory.
        paths = {each: str(self._folder / each) for each in DIRECTORIES}
        words = [({OFFSET: self._offset} | paths).get(word, word) for word in words]
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            self._code = main(words)
        printed = out.getvalue().replace(f"{self._folder}/", "")
        lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
        # The page keeps the lines of progress that it shows.
        return "".join(each[0] for each in PROGRESS.finditer(expected)) + PROGRESS.sub("", lines)

    def _shell_output(self, command: str) -> str:
        stdin, stdout = self._shell.stdin, self._shell.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{command}\necho {END}\n".encode())
        lines = iter(lambda: read_line(stdout), END)
        return "".join(f"{line}\n" for line in lines if not KILLED.match(line))

    # What happens between the blocks -------------------------------------------------------------

    def damage(self) -> None:
        """Change a byte of the first file of the table `copy/orders`, and delete the second."""
        first, second = sorted(DeltaTable("copy/orders").file_uris())[:2]
        rows = pq.read_table(first)
        values = rows["value"].to_pylist()
        values[47] = bytes([values[47][0] ^ 1]) + values[47][1:]
        index = rows.schema.get_field_index("value")
        pq.write_table(rows.set_column(index, rows.schema.field(index), [values]), first)
        os.remove(second)

    def remember(self) -> None:
        """Note the end of the metadata log, for a comparison with later records."""
        with Client(self._address) as client:
            self._offset = str(client.describe_quorum().high_watermark - 1)


def comparable(block: str) -> list[str]:
    """The lines without progress, and without the parts that differ between runs."""
    lines = []
    for line in PROGRESS.sub("", block).splitlines():
        if not line.startswith("$ "):
            line = re.sub(r"\b[0-9a-f]{8,}\b", "CRC", line)
            line = re.sub(r"[\w-]{22}\b", "ID", line)
            line = re.sub(r"\S+\.parquet", "FILE", line)
            line = re.sub(r"^never reached: .*", "never reached: …", line)
            line = re.sub(r"\d[\d,.:T+-]*", "N", line)
        lines.append(" ".join(line.split()))
    return lines
