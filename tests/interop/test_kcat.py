"""The system's kcat, a command-line client with an old librdkafka, against a node."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.interop.everyday.work import CODECS, batches
from tests.server.clients import run_kcat
from tests.server.node_process import NodeProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Kcat = Callable[..., str]

READ_ALL = ("-C", "-e", "-q", "-t", "lines")


@pytest.fixture
def run_on_node(kcat: str, tmp_path: Path) -> Iterator[Kcat]:
    """Run kcat against a node with the topic `lines`; return its output."""
    node = NodeProcess(
        str(tmp_path / "data"), errors=str(tmp_path / "errors.txt"), topics={"lines": 2}
    )

    def run(*words: str, stdin: str = "") -> str:
        return run_kcat(kcat, node.address, *words, stdin=stdin.encode())

    try:
        yield run
        assert node.stop() == 0
        assert node.logged_errors() == []
    finally:
        node.kill_if_running()


def test_kcat_is_built_with_librdkafka(kcat: str) -> None:
    shown = subprocess.run([kcat, "-V"], capture_output=True, text=True, check=True).stdout
    assert "librdkafka" in shown


def test_kcat_lists_the_metadata_as_json(run_on_node: Kcat) -> None:
    metadata = json.loads(run_on_node("-L", "-J"))
    topics = [(topic["topic"], len(topic["partitions"])) for topic in metadata["topics"]]
    assert topics == [("lines", 2)]
    assert metadata["controllerid"] in [broker["id"] for broker in metadata["brokers"]]


def test_kcat_produces_and_consumes_with_every_codec(run_on_node: Kcat, tmp_path: Path) -> None:
    written = [f"{codec} {n} and the same again and again" * 9 for codec in CODECS for n in (1, 2)]
    for index, codec in enumerate(CODECS):
        lines = [f"k:{value}\n" for value in written[2 * index : 2 * index + 2]]
        produce = ("-P", "-t", "lines", "-p", "0", "-z", codec)
        run_on_node(*produce, "-K:", "-H", "h=1", stdin="".join(lines))
    shown = run_on_node(*READ_ALL, "-p", "0", "-f", "%o %k %s %h\n").splitlines()
    assert shown == [f"{offset} k {value} h=1" for offset, value in enumerate(written)]
    codes = [batch.codec for batch in batches(str(tmp_path / "data"), "lines-0")]
    assert list(dict.fromkeys(codes)) == [0, 1, 2, 3, 4]


def test_kcat_produces_idempotently_and_finds_offsets_by_timestamp(
    run_on_node: Kcat, tmp_path: Path
) -> None:
    idempotent = ("-P", "-t", "lines", "-p", "1", "-X", "enable.idempotence=true")
    run_on_node(*idempotent, stdin="one\ntwo\n")
    assert all(b.producer_id >= 0 for b in batches(str(tmp_path / "data"), "lines-1"))
    assert run_on_node("-Q", "-t", "lines:1:-1") == "lines [1] offset 2\n"
    assert run_on_node("-Q", "-t", "lines:1:1000") == "lines [1] offset 0\n"


def test_kcat_resumes_in_a_consumer_group(run_on_node: Kcat) -> None:
    group = ("-G", "readers", "-e", "-q", "-X", "auto.offset.reset=earliest", "-f", "%s\n", "lines")
    run_on_node("-P", "-t", "lines", "-p", "0", stdin="one\ntwo\n")
    assert run_on_node(*group) == "one\ntwo\n"
    run_on_node("-P", "-t", "lines", "-p", "1", stdin="three\n")
    assert run_on_node(*group) == "three\n"
