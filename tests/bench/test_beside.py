"""The comparison with Apache Kafka: arithmetic, page, picture, and a run of kraftlog."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from bench.beside import command, frame_client, page, picture, rounds
from bench.beside.figures import Result, parse_perf_test, percentile, stored_result
from bench.beside.lifetime import starts_and_stops
from bench.beside.machine import cpu_seconds, ended_cpu_seconds, pinned, process_tree, rss_mb
from bench.beside.peers import Peer, kraftlog_node, running
from bench.beside.plan import QUICK, Plan
from bench.beside.programs import parse_probe
from bench.beside.rows import (
    BARE,
    KAFKA,
    KRAFTLOG,
    ROWS,
    SECTIONS,
    TITLE,
    TITLES,
    Row,
    at_least,
    at_most,
    times,
)
from bench.page import with_section

from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.frames import response_frame
from kraftlog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from pathlib import Path

SVG = "{http://www.w3.org/2000/svg}"


def result_of(case: str, kafka: float, kraftlog: float) -> Result:
    """A result with the same figures in every row of a case."""
    result = Result(case, "2026-01-01 10:00:00", "2026-01-01 10:05:00", 97.4)
    for section in SECTIONS[case]:
        for row in ROWS[section]:
            for figure in (kafka, kafka * 3, kafka / 3):
                result.add(row.key, KAFKA, figure)
            result.add(row.key, KRAFTLOG, kraftlog)
    return result


def test_a_percentile_is_one_of_the_figures() -> None:
    figures = [float(each) for each in range(100, 0, -1)]
    assert percentile(figures, 50) == 51
    assert percentile(figures, 99) == 100
    assert percentile([7.0], 99) == 7


def test_results_are_stored_and_reduced_to_medians(tmp_path: Path) -> None:
    result = result_of("start", 6, 2)
    assert stored_result("start", str(tmp_path)) is None
    result.save(str(tmp_path))
    assert stored_result("start", str(tmp_path)) == result
    assert result.medians("start.stop") == {KAFKA: 6, KRAFTLOG: 2}
    assert result.medians("no.such") == {}


def test_the_output_of_kafkas_tool_is_read() -> None:
    output = (
        "300000 records sent, 59000.1 records/sec (5.6 MB/sec), 210 ms avg latency.\n"
        "1500000 records sent, 375000.0 records/sec (35.76 MB/sec), 12.1 ms avg latency, 310.00 ms"
        " max latency, 5 ms 50th, 60 ms 95th, 90 ms 99th, 99 ms 99.9th.\n"
    )
    assert parse_perf_test(output) == (1_500_000, 4.0)
    with pytest.raises(ValueError, match="no figures: 'Exception"):
        parse_perf_test("Exception in thread main\n")


def test_the_output_of_the_probe_is_read() -> None:
    probed = parse_probe("0.5\n100.0\n300.0\n200.0\n")
    assert (probed.p50, probed.p99, probed.rate) == (0.2, 0.3, 6.0)


@pytest.mark.parametrize(
    ("row", "kafka", "reached", "missed"),
    [
        (Row("a", "a", "1/s", times(1.4), more_is_better=True), 100, 140, 139),
        (Row("a", "a", "s/GB", times(2.5)), 100, 40, 41),
        (Row("a", "a", "ms", at_most(200)), 3800, 200, 201),
        (Row("a", "a", "1/s", at_least(6500), more_is_better=True), 20, 6500, 6499),
    ],
)
def test_a_goal_is_reached_or_not(row: Row, kafka: float, reached: float, missed: float) -> None:
    assert page.verdict(row, kafka, row.times_better(kafka, reached)) == "reached"
    assert "missing" in page.verdict(row, kafka, row.times_better(kafka, missed))
    assert page.verdict(Row("a", "a", "ms"), kafka, 0.1) == ""


def test_a_missed_goal_is_shown_with_the_bare_servers_figure() -> None:
    row = Row("a", "a", "1/s", times(3), more_is_better=True)
    assert page.verdict(row, 100, 2, bare=2.5) == "**missing 1.5×**; the bare server: 2.5×"
    expected = "**missing 1.5×**; the bare server: 3.25×, so there is room"
    assert page.verdict(row, 100, 2, bare=3.25) == expected
    assert page.verdict(row, 100, 3, bare=2.5) == "reached"


def test_the_bare_server_has_a_column_if_it_was_measured() -> None:
    result = result_of("latency", 6, 2)
    result.add("latency.sync.p50", BARE, 1.5)
    lines = list(page.tables(result))
    assert "| | unit | Kafka | kraftlog | bare server | better | to reach | |" in lines
    first = "| one synchronous produce, p50 | ms | 6 | 2 | 1.5 | 3× | 0.6 of Kafka's | reached |"
    assert first in lines
    assert "| create topic, p50 | ms | 6 | 2 |  | 3× | ≤ 3 | reached |" in lines
    assert (
        "| create topic, p50 | ms | 6 | 2 | 3× |  |  |" in lines
    )  # in a section without its figures


def test_the_clients_cpu_time_is_shown_below_the_table() -> None:
    result = result_of("consume", 6, 2)
    assert not [line for line in page.tables(result) if "CPU of the clients" in line]
    for peer, figure in ((BARE, 0.3), (KRAFTLOG, 0.4), (KAFKA, 0.5)):
        result.add("consume.1KiB.clients", peer, figure)
    [line] = [line for line in page.tables(result) if "CPU of the clients" in line]
    assert line.endswith("the bare server: consume 1 KiB: 0.5 / 0.4 / 0.3 s/GB.")


def test_every_row_has_one_key_and_every_section_a_case() -> None:
    keys = [row.key for rows in ROWS.values() for row in rows]
    assert len(set(keys)) == len(keys)
    sections = [section for names in SECTIONS.values() for section in names]
    assert sorted(sections) == sorted(ROWS) == sorted(TITLES)
    assert set(SECTIONS) == set(command.CASES)


def test_a_section_replaces_only_the_section_of_its_title() -> None:
    section = page.section_text({"start": result_of("start", 6, 2)})
    assert "| SIGTERM to exit | ms | 6 | 2 | 3× | ≤ 150 | reached |" in section
    assert "2026-01-01 10:00:00 to 2026-01-01 10:05:00 UTC, 3 rounds" in section
    assert "97 % idle" in section
    assert "Not measured: `python -m bench beside produce`." in section
    others = "# Performance\n\n## Wire\n\n| a |\n"
    once = with_section(others, TITLE, section)
    assert once.startswith(others)
    assert with_section(once, TITLE, section) == once
    followed = once + "\n## More\n\ntext\n"
    changed = with_section(followed, TITLE, section.replace("3×", "4×"))
    assert "3×" not in changed
    assert changed.endswith("\n\n## More\n\ntext\n")


def test_a_page_keeps_the_tables_of_cases_without_stored_results() -> None:
    results = {case: result_of(case, 6, 2) for case in SECTIONS}
    old = page.section_text(results)
    assert page.section_text({"start": results["start"]}, old) == old
    assert page.section_text({}, old) == old


def test_a_trial_is_marked_as_one() -> None:
    result = result_of("start", 6, 2)
    assert "trial" not in page.provenance(result)
    result.is_full = False
    assert "not to be quoted" in page.provenance(result)
    assert Plan().is_full
    assert Plan(load_s=60).is_full
    assert not QUICK.is_full


def test_the_picture_has_a_bar_for_every_row_and_a_mark_for_every_goal() -> None:
    results = {case: result_of(case, 50, 20) for case in SECTIONS}
    root = ET.fromstring(picture.picture(results))
    rows = [row for rows in ROWS.values() for row in rows]
    drawn = [bar for bar in root.iter(f"{SVG}rect") if bar.get("class") != "paper"]
    marks = [line for line in root.iter(f"{SVG}line") if line.get("class") == "goal"]
    legend_bars, legend_marks = 3, 1
    assert len(drawn) == len(rows) + legend_bars
    assert len(marks) == len([row for row in rows if row.goal]) + legend_marks
    width = float(root.attrib["viewBox"].split()[2])
    assert all(0 <= float(bar.get("x", -1)) <= width for bar in drawn[legend_bars:])


def test_the_scale_includes_all_bars_and_goals() -> None:
    bars = [picture.Bar("a", 0.3, 200.0), picture.Bar("b", 3000.0, None)]
    assert picture.extent(bars) == (-1, 4)
    assert [bar.kind for bar in bars] == ["missed", "free"]
    assert picture.Bar("c", 2.0, 2.0).kind == "reached"


def test_two_peers_alternate_their_order(tmp_path: Path) -> None:
    a, b = (kraftlog_at_rest(tmp_path, name) for name in "ab")
    order = [peer.port for peer in rounds.in_turns([a, b], 2)]
    assert order == [a.port, b.port, b.port, a.port]


def test_every_peer_has_every_position(tmp_path: Path) -> None:
    peers = [Peer(name, [], 0, str(tmp_path / name)) for name in "abc"]
    assert "".join([peer.name for peer in rounds.in_turns(peers, 4)]) == "abcbcacababc"


def kraftlog_at_rest(tmp_path: Path, name: str) -> Peer:
    folder = tmp_path / name
    folder.mkdir()
    return kraftlog_node(str(folder))


@pytest.mark.parametrize("topic", ["a", "a-longer-name"])
def test_the_position_of_the_error_code_is_found(topic: str) -> None:
    part = PartitionProduceResponse(index=0, error_code=73, base_offset=11)
    response = ProduceResponse(
        responses=[TopicProduceResponse(name=topic, partition_responses=[part])]
    )
    version = frame_client.PRODUCE_VERSION
    frame = b"".join(response_frame(APIS[ApiKey.PRODUCE], version, 1, response))
    position = 4 + frame_client.produce_error_position(topic)
    assert frame[position : position + 2] == b"\0\x49"


def test_kraftlog_is_measured_from_start_to_stop(tmp_path: Path) -> None:
    node = kraftlog_node(str(tmp_path))
    result = Result("start")
    starts_and_stops([node], Plan(rounds=1, settle_s=0), result)
    assert set(result.figures) == {"start.metadata", "start.stop"}
    assert all(each[0] > 0 for row in result.figures.values() for each in row.values())
    with running(node):
        assert process_tree(node.pid)[0] == node.pid
        assert cpu_seconds(node.pid) > 0
        assert rss_mb(node.pid) > 1


def test_the_cpu_time_of_ended_clients_is_counted() -> None:
    before = ended_cpu_seconds()
    code = "import time\nwhile time.process_time() < 0.05: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert ended_cpu_seconds() - before >= 0.05


def test_a_missing_program_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command.main(["start", "--quick"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("beside: no java")
    assert printed.count("\n") == 1


def test_an_unknown_case_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["staart"])
    assert "there are start, produce, consume" in capsys.readouterr().err


def test_processes_share_a_processor_or_are_placed_apart() -> None:
    everywhere = os.sched_getaffinity(0)
    with subprocess.Popen(["sleep", "100"]) as sleeper:
        try:
            for apart in (False, True):
                with pinned(sleeper.pid, apart=apart):
                    is_apart = os.sched_getaffinity(sleeper.pid) != os.sched_getaffinity(0)
                    assert is_apart == (apart and len(everywhere) > 1)
                    assert len(os.sched_getaffinity(0)) == 1
                assert os.sched_getaffinity(sleeper.pid) == os.sched_getaffinity(0) == everywhere
        finally:
            sleeper.kill()
