"""A night of benchmarks: what is due, what is stale, what a failure leaves, and the page."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from bench.__main__ import COMMANDS, main
from bench.night import Options, plan
from bench.page import in_order, part, with_section, with_stamp
from bench.sections import BY_NAME, MODULES, PAGE_TITLES, SECTIONS
from bench.stamps import Code, Stamp, Stamps, duration_text, stale_reason

from bench import night, page, stamps
from kraftlog.client.deadline import Deadline
from tests.interop.cache import ROOT
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

STAMP = Stamp("2026-01-01 00:00:00", "abc", "0.1.0", "a machine", 125, "4.4.0")


def code(changed: str, version: str = "0.1.7", kafka: str = "4.4.0") -> Code:
    return Code(datetime.fromisoformat(changed).replace(tzinfo=UTC), version, kafka)


OLD = code("2025-12-31")
CODES = dict.fromkeys(BY_NAME, OLD)


def all_measured() -> Stamps:
    return Stamps("", dict.fromkeys(BY_NAME, STAMP), {})


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (code("2025-12-01", "0.2.0"), ""),  # not changed since, whatever the release
        (code("2026-01-31"), ""),  # 30 days later
        (code("2026-02-01"), "its code was changed 31 days later, on 2026-02-01"),
        (code("2026-01-02", "0.2.0"), "its code has changed since version 0.1.0"),
        (code("2026-01-02", "1.1.0"), "its code has changed since version 0.1.0"),
        (code("2025-12-01", kafka="4.5.0"), "beside Apache Kafka 4.4.0, and 4.5.0 is the"),
        (Code(None), ""),  # not in a repository
    ],
)
def test_a_section_is_stale_if_its_code_is_much_newer(now: Code, reason: str) -> None:
    found = stale_reason(STAMP, now)
    assert reason in found
    assert bool(found) == bool(reason)


def test_a_night_measures_what_is_missing_failed_or_stale() -> None:
    stored = all_measured()
    assert plan(Options(), stored, CODES) == {}
    del stored.measured["reads"]
    stored.failed["wire"] = STAMP
    stored.measured["beside produce"] = replace(STAMP, commit="")
    codes = {**CODES, "storage": code("2026-03-01"), "groups": code("2026-01-02")}
    assert plan(Options(), stored, codes) == {
        "beside produce": "its commit was not recorded",
        "wire": "the last attempt failed",
        "storage": "its code was changed 59 days later, on 2026-03-01",
        "reads": "not measured yet",
    }
    assert "groups" in plan(Options(if_changed=True), stored, codes)


def test_sections_are_named_or_measured_again() -> None:
    stored = Stamps("", {"wire": STAMP}, {})
    assert list(plan(Options(only=("wire", "records")), stored, CODES)) == ["records"]
    assert plan(Options(again=("wire",)), stored, CODES) == {"wire": "asked for"}
    assert list(plan(Options(again=("all",)), all_measured(), CODES)) == list(BY_NAME)
    cases = list(plan(Options(only=("beside",)), stored, CODES))
    assert cases == [name for name in BY_NAME if name.startswith("beside ")]


def test_sections_that_share_a_cluster_run_in_one_command() -> None:
    names = ["beside start", "cluster produce", "cluster create", "cluster kill", "wire", "records"]
    words = [" ".join(night.arguments_of(each)) for each in night.commands(names)]
    assert words == ["beside start", "cluster produce create", "cluster kill", "wire", "records"]


def test_the_estimate_is_the_duration_of_the_last_measurement() -> None:
    stored = Stamps("", {"wire": STAMP}, {})
    assert night.estimate_s(["wire"], stored) == 125
    assert night.estimate_s(["wire", "records"], stored) == 125 + BY_NAME["records"].minutes * 60
    assert [duration_text(each) for each in (40, 125, 11_100)] == ["40 s", "2 min", "3 h 5 min"]


@pytest.fixture
def two_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A night of `wire`, which fails, and `records`, which stores a result."""
    store = tmp_path / "stamps.json"
    monkeypatch.setattr(night, "LOGS", str(tmp_path))

    def run(command: list[str], log: str, limit_s: float) -> str:
        assert os.path.dirname(log) == str(tmp_path)
        assert limit_s >= night.PATIENCE_MIN_S
        if "wire" in command:
            return "OSError: no disk"
        stored = stamps.load(str(store))
        stored.record(command[-1], replace(stamps.begin(), seconds=7))
        stored.save()
        return ""

    monkeypatch.setattr(night, "run", run)
    return store


def test_a_failed_section_is_stored_and_the_night_goes_on(two_commands: Path) -> None:
    due = dict.fromkeys(("wire", "records"), "")
    failed = night.run_all(due, Options(), str(two_commands))
    assert failed == {"wire": "OSError: no disk"}
    stored = stamps.load(str(two_commands))
    assert stored.failed["wire"].error == "OSError: no disk"
    assert stored.measured["records"].seconds == 7
    assert plan(Options(only=("wire", "records")), stored, CODES) == {
        "wire": "the last attempt failed"
    }
    stored.record("wire", STAMP)
    assert stored.failed == {}


def test_stamps_are_read_as_they_were_written(tmp_path: Path) -> None:
    stored = Stamps(str(tmp_path / "a" / "stamps.json"), {"wire": STAMP}, {"records": STAMP})
    stored.save()
    assert stamps.load(stored.path) == stored
    assert stamps.load(str(tmp_path / "none.json")).measured == {}


def test_the_error_is_the_last_line_of_the_output(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    assert night.run([sys.executable, "-c", "print('a\\n**b**\\n'); exit(3)"], log, LIMIT_S) == "b"
    assert night.run([sys.executable, "-c", "exit(3)"], log, LIMIT_S) == "exit code 3"
    assert night.run([sys.executable, "-c", "print('a')"], log, LIMIT_S) == ""


def test_a_night_that_is_terminated_leaves_no_process(tmp_path: Path) -> None:
    """SIGTERM ends the benchmark, and the processes that it has started itself."""
    grandchild = f"{sys.executable} -c 'import time; print(1, flush=True); time.sleep(99)'"
    code = (
        "import signal, sys; from bench import night\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))\n"
        "print('ready', flush=True)\n"
        f"night.run(['bash', '-c', {f'{grandchild} & echo $! > {tmp_path}/pid; wait'!r}],"
        f" {str(tmp_path / 'log')!r}, 99)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        pid_file = tmp_path / "pid"
        while not (pid_file.exists() and pid_file.read_text().endswith("\n")):
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 1
    end, pid = Deadline(LIMIT_S), int(pid_file.read_text())
    while is_running(pid):  # a killed process ends a moment later
        assert not end.is_over


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_page_says_when_a_section_was_measured_and_that_it_is_stale() -> None:
    stored = all_measured()
    stored.failed["records"] = replace(STAMP, began="2026-05-05 01:00:00", error="no disk")
    del stored.measured["groups"]
    codes = {**CODES, "wire": code("2026-03-01")}
    text = stamps.stamped("", stored, codes)
    measured = (
        "Measured on 2026-01-01 at commit abc (version 0.1.0), in 2 min; a machine; "
        "Apache Kafka 4.4.0."
    )
    assert part(text, "Latency").splitlines()[2] == measured
    wire = part(text, "Messages to bytes and back", "##").splitlines()
    assert wire[2:4] == [
        measured,
        (
            "**Stale: its code was changed 59 days later, on 2026-03-01. "
            '`python -m bench night --again "wire"` measures it again.**'
        ),
    ]
    assert "**The last attempt on 2026-05-05 at commit abc failed: no disk**" in text
    groups = part(text, "Consumer groups", "##")
    assert "Measured" not in groups
    assert "Not measured: `python -m bench groups`." in groups
    assert stamps.stamped(text, stored, codes) == text
    later = stamps.stamped(text, Stamps("", dict.fromkeys(BY_NAME, STAMP), {}), CODES)
    assert "Stale" not in later
    assert "failed" not in later


def test_a_stamp_replaces_the_earlier_one_of_its_section_only() -> None:
    text = "# P\n\n## Requests for many (`x`)\n\n| a |\n\n## Requests (`y`)\n\n| b |\n"
    once = with_stamp(text, "Requests", [f"{page.MEASURED}a day."])
    assert once == text.replace("(`y`)\n\n", "(`y`)\n\nMeasured on a day.\n\n")
    twice = with_stamp(once, "Requests", [f"{page.MEASURED}x.", f"{page.STALE}y.**"])
    assert "Measured on x.\n**Stale: y.**\n\n| b |" in twice
    assert with_stamp(twice, "Requests", []) == text


def test_sections_are_put_into_order() -> None:
    text = with_section(with_section("", "B", "## B\n\nb\n"), "A", "## A (`python`)\n\na\n")
    assert text.index("## B") < text.index("## A")
    assert in_order(text, ["A", "B"]) == f"{page.HEAD}\n## A (`python`)\n\na\n\n## B\n\nb\n"


def test_every_section_has_its_own_place_and_paths_that_exist() -> None:
    titles = [title for section in SECTIONS for title in section.titles]
    assert len(set(titles)) == len(titles)
    for section in SECTIONS:
        for path in section.paths:
            assert os.path.exists(os.path.join(ROOT, path)), path
    stored = page.read_page()
    levels = [(title, "##") for title in PAGE_TITLES]
    assert [title for title, level in levels if not part(stored, title, level)] == []
    for module in MODULES:
        assert os.path.exists(os.path.join(ROOT, "bench", f"{module.name}.py"))


def test_the_sections_are_all_cases_and_tasks() -> None:
    from bench.beside.command import CASES
    from bench.cluster.tasks import TASKS

    expected = {f"beside {case}" for case in CASES} | {f"cluster {task}" for task in TASKS}
    assert {name for name in BY_NAME if " " in name} >= expected
    commands = {name.partition(" ")[0] for name in BY_NAME}
    assert commands == {*COMMANDS, *[module.name for module in MODULES]} - {"night"}


def test_an_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["wires"]) == 2
    assert "no benchmark 'wires'; there are wire, records" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["night", "--again", "wires"])
    assert "no section 'wires'; there are beside start" in capsys.readouterr().err
