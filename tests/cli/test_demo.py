"""The output of `kraftlog demo`, with its steps replaced; tests/spark/test_demo.py runs them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kraftlog.cli import demo, main

if TYPE_CHECKING:
    import pytest


def test_the_demo_prints_its_steps_as_lines_of_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop_writing(running: demo.Demo, _: object) -> int:
        running._say("the producer has stopped")
        return 7

    monkeypatch.setattr(demo, "missing_packages", lambda: "")
    monkeypatch.setattr("signal.signal", lambda *_: None)
    steps = ("_start_nodes", "_create_topic", "_start_clients", "_start_archive", "_verify")
    for step in (*steps, "_kill_a_broker", "_finish_archive"):
        monkeypatch.setattr(demo.Demo, step, lambda *_: None)
    monkeypatch.setattr(demo.Demo, "_stop_writing", stop_writing)
    assert main(["demo", "--json"]) == 0
    first, result = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert first == {"event": "step", "step": "the producer has stopped"}
    assert (result["event"], result["records"]) == ("result", 7)
    assert main(["demo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "demo: the producer has stopped"
    assert lines[1].startswith("demo: done in ")
