"""The page of a run: self-contained, equal to the run, and interactive in a browser."""

from __future__ import annotations

import html
import json
import math
import re
import struct
import subprocess
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog.cli import simulate as command
from kraftlog_simulator.page.render import play_page
from kraftlog_simulator.page.sentences import ReplicaState, change_result, changes, describe_cuts
from kraftlog_simulator.rng import Rng
from kraftlog_simulator.run import simulate
from kraftlog_simulator.scenarios.catalog import SCENARIOS
from kraftlog_simulator.scenarios.goals import begin
from kraftlog_simulator.world import Goal, World
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: A leader is cut off, and another is elected.
RUN = ("leader-partitioned", 3)
#: Three voters are replaced by three others.
MOVE = ("move", 2)
RUNS = [RUN, MOVE, ("leader-failure", 4), ("mixture", 7), ("mixture", 15)]
#: The leader changes while a follower fetches a snapshot in chunks.
SNAPSHOTS = ("snapshot-race", 2)


def data_in(page: str) -> Any:
    match = re.search(r'<script type="application/json" id="run">(.*?)</script>', page, re.DOTALL)
    assert match
    return json.loads(match[1])


def elections_in(data: Any) -> list[tuple[int, int, int]]:
    """The time, winner and epoch of each election."""
    won = re.compile(r"(\d+) is elected: it leads epoch (\d+)\.")
    matches = [(event[0], won.fullmatch(event[3])) for event in data["events"]]
    return [(math.ceil(time), int(match[1]), int(match[2])) for time, match in matches if match]


@pytest.fixture(scope="module")
def page() -> str:
    return play_page(*RUN)


def test_the_page_is_self_contained(page: str) -> None:
    assert not re.search(r"https?:|//\w+\.\w+|@import|url\(|<link|<img|\bsrc=|fetch\(", page)
    assert "/* style */" not in page
    assert "/* script */" not in page


def test_the_same_seed_gives_the_same_bytes(page: str) -> None:
    assert play_page(*RUN) == page
    assert play_page(RUN[0], RUN[1] + 1) != page


@pytest.mark.parametrize(("scenario", "seed"), RUNS)
def test_a_recorded_run_equals_the_original(scenario: str, seed: int) -> None:
    plain: list[str] = []
    recorded: list[str] = []
    simulate(scenario, seed, trace=plain.append)
    play_page(scenario, seed, trace=recorded.append)
    assert recorded == plain


@pytest.mark.parametrize(("scenario", "seed"), RUNS)
def test_counts_agree_with_the_trace(scenario: str, seed: int) -> None:
    lines: list[str] = []
    data = data_in(play_page(scenario, seed, trace=lines.append))
    texts = [event[3] for event in data["events"]]
    assert sum(" starts with " in text for text in texts) == sum(
        line.split()[3] == "starts" for line in lines
    )
    arrived = [message for message in data["messages"] if message[6] == "arrived"]
    from_peers = [line for line in lines if "pending=(replica" in line or " Response(" in line]
    # A paused process, or a later incarnation, does not handle the message.
    handled = len(from_peers)
    if scenario == "mixture":
        assert handled <= len(arrived)
        assert handled > len(arrived) * 0.9
    else:
        assert handled == len(arrived)


def test_times_are_in_order_and_within_the_run(page: str) -> None:
    data = data_in(page)
    for times in (
        [event[0] for event in data["events"]],
        *[[state[0] for state in states] for states in data["states"]],
    ):
        assert times == sorted(times)
        assert len(set(times)) == len(times)
        assert times[0] > -1
        assert times[-1] <= data["end"]
    for sent, lands, source, target, *_ in data["messages"]:
        assert sent < lands
        assert source != target


def states_at(scenario: str, seed: int, time: int) -> dict[int, tuple[str, int, int]]:
    """Role, epoch and leader of each replica once everything of this ms has happened."""
    draw_setting, script = SCENARIOS[scenario]
    world = World(seed, draw_setting(Rng(seed, f"setting of {scenario}")))
    seen: dict[int, tuple[str, int, int]] = {}

    def record() -> None:
        for replica in world.running:
            assert replica.core
            election = replica.core.election
            seen[replica.id] = (replica.core.role.name, election.epoch, election.leader_id)

    world.schedule(time + 1, record)  # the first event of the next ms
    world.play(script(world))
    return seen


def test_states_are_those_of_the_run(page: str) -> None:
    data = data_in(page)
    first, *_, last = [at for at, _, _ in elections_in(data)]
    for time in [0, first - 1, first, (first + last) // 2, last - 1, last, last + 1]:
        shown = {}
        for replica_id, states in enumerate(data["states"]):
            _, role, epoch, leader, *_ = [state for state in states if state[0] <= time][-1]
            shown[replica_id] = (role, epoch, leader)
        assert shown == states_at(*RUN, time)


def test_an_election_is_described(page: str) -> None:
    data = data_in(page)
    (_, old, _), *_, (_, new, epoch) = elections_in(data)
    texts = [event[3] for event in data["events"]]
    story = [
        f"Fault: {old} is cut off.",
        f"{new} requests a pre-vote from {old}, still in epoch {epoch - 1}: lost.",
        f"{new} becomes a candidate in epoch {epoch} and votes for itself.",
        f"{new} requests the vote of {old} in epoch {epoch}: lost.",
        f"{new} is elected: it leads epoch {epoch}.",
        f"{new} notifies {old} that it leads epoch {epoch}: lost.",
    ]
    places = [texts.index(sentence) for sentence in story]
    assert places == sorted(places)
    votes = [text for text in texts if text.endswith(f"grants {new} its vote in epoch {epoch}.")]
    for replica_id in [text.split()[0] for text in votes]:
        assert f"{new} requests the vote of {replica_id} in epoch {epoch}: granted." in texts
    assert votes


def test_a_snapshot_download_is_described() -> None:
    """Q38."""
    data = data_in(play_page(*SNAPSHOTS))
    texts = [event[3] for event in data["events"]]
    replacement = re.compile(r"(\d) replaces its log by the snapshot up to (\d+)\.")
    replaced_at, replica_id, end = next(
        (i, m[1], m[2]) for i, text in enumerate(texts) if (m := replacement.match(text))
    )
    story = [
        rf"\d has a snapshot: its log starts at {end}\.",
        rf"\d refers {replica_id} to the snapshot before its log start, {end}\.",
        rf"{replica_id} fetches the snapshot up to {end} from \d, from byte 0 on\.",
        rf"\d sends {replica_id} bytes 0 to \d+ of \d+ of the snapshot up to {end}\.",
    ]
    places = [next(i for i, text in enumerate(texts) if re.match(line, text)) for line in story]
    assert places == sorted(places)
    assert places[-1] < replaced_at
    starts = {state[-1] for state in data["states"][int(replica_id)]}
    assert {0, int(end)} <= starts
    assert "snapshot" in {message[4] for message in data["messages"]}


def test_a_failing_run_is_shown_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    setting, _ = SCENARIOS["initial-leader"]
    never = Goal("two leaders without conflict", lambda: False, 2000)
    script = lambda world: [*begin(world), never]  # noqa: E731 - as short as a script gets
    monkeypatch.setitem(SCENARIOS, "impossible", (setting, script))
    data = data_in(play_page("impossible", 9))
    assert data["failed"]
    broken = "An invariant is violated: liveness: not within 2000 ms: two leaders without conflict"
    assert data["events"][-1][2:4] == ["fault", broken]


def test_a_reassignment_is_described() -> None:
    """R12, R2, R3: the request, each step, and the end."""
    data = data_in(play_page(*MOVE))
    texts = [event[3] for event in data["events"] if event[2] == "voters"]
    story = [
        "The administrator requests to move to 3 4 5.",
        "has a reassignment in its log. The target voters: 3, 4, 5.",
        "1 appends a voter change: 4 is added. The voters: 0, 1, 2, 4.",
        "The request to move to 3 4 5 succeeds: it is committed.",
        " finds a voter change in its log: ",
        " has no target voters any more. The voters: 3, 4, 5.",
    ]
    places = [next(i for i, text in enumerate(texts) if part in text) for part in story]
    assert places[0] == 0
    assert places[-1] == max(places)
    for states in data["states"][3:]:
        voters, votes, targets, voters_at = states[-1][11:15]
        assert (voters, votes, targets) == ([3, 4, 5], True, None)
        assert len(voters_at) == 9, "the first, the target, six steps, and the end"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (0, "The request to add voter 3 succeeds: it is committed."),
        (126, "The request to add voter 3 fails: DUPLICATE_VOTER."),
    ],
)
def test_a_response_to_the_administrator_is_described_in_words(error: int, text: str) -> None:
    assert change_result("add voter 3", error) == text


def test_a_truncated_voter_change_is_described_in_words() -> None:
    """R1: the previous set is in force again."""
    state = ReplicaState(
        "follower", 1, 0, -1, 9, 9, 5, False, False, (), (0, 1, 2), True, None, (0, 7)
    )
    now = state.replace(end=7, voters=(0, 1), voters_at=(0,))
    assert ("voters", "1 reverts a voter change by truncation. The voters: 0, 1.") in changes(
        1, state, now
    )


@pytest.mark.parametrize(
    ("cuts", "text"),
    [
        ([], ""),
        ([(0, 1), (1, 0), (0, 2), (2, 0), (0, 3), (3, 0)], "0 is cut off"),
        ([(a, b) for a in range(4) for b in range(4) if a // 2 != b // 2], "split: 0 1 | 2 3"),
        ([(0, 1), (1, 0), (0, 2), (2, 0)], "voters split: 0 | 1 2"),
        ([(0, 1), (1, 0), (2, 3)], "cut: 0↔1 2→3"),
        ([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)], "cut: 0→1 0→2 0→3 1→2 and 1 more"),
    ],
)
def test_cuts_are_described_in_words(cuts: list[tuple[int, int]], text: str) -> None:
    assert describe_cuts(range(4), range(3), set(cuts)) == text


def test_the_command_writes_the_page(
    page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.html"
    arguments = ["--scenario", RUN[0], "--seed", str(RUN[1]), "--html", str(path)]
    assert command.run(arguments) == 0
    assert path.read_text(encoding="utf-8") == page
    assert command.run([*arguments, "--runs", "2"]) == 2
    assert "--html shows a single run" in capsys.readouterr().err


# In a browser ------------------------------------------------------------------------------------

#: Uses the page as a reader does, and writes what it shows at each step into the document.
VISIT = """
<script>
const seen = {};
const look = (what) => { seen[what] = [document.body.dataset.time, element("now").textContent]; };
const key = (name, shiftKey) =>
  document.dispatchEvent(new KeyboardEvent("keydown", {key: name, shiftKey}));
element("slider").value = run.faults[0][FAULT.begin];
element("slider").dispatchEvent(new Event("input"));
look("slider");
key("ArrowRight"); look("step");
key("ArrowLeft"); look("back");
key("ArrowRight", true); look("election");
key(" "); advance(view.lastFrame + 50); look("playing");
key(" "); key("ArrowLeft", true);
setPreset(PRESETS["the story"]); look("filtered");
seen.kinds = [...new Set(listed.map((event) => event[EVENT.kind]))].sort();
for (const id of nodes.slice(0, -1)) toggle(hidden.nodes, id);
seen.nodes = [...new Set(listed.map((event) => event[EVENT.node]))].sort();
setPreset(PRESETS["the story"]);
document.querySelector("#events li.later").click(); look("clicked");
document.querySelector(".fault-bar").dispatchEvent(new MouseEvent("click", {bubbles: true}));
look("fault");
key("End"); look("end");
document.body.insertAdjacentHTML("beforeend", `<pre id="seen">${JSON.stringify(seen)}</pre>`);
</script>
"""


@pytest.fixture
def browse(chromium: str, tmp_path: Path) -> Callable[..., str]:
    """Open a page: `browse(text, "#t=42")` returns the resulting document."""

    def open_page(text: str, fragment: str = "", screenshot: str = "") -> str:
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        result = subprocess.run(
            [
                chromium,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--window-size=1280,800",
                "--virtual-time-budget=500",
                "--enable-logging=stderr",
                f"--user-data-dir={tmp_path / 'profile'}",
                f"--screenshot={screenshot}" if screenshot else "--dump-dom",
                f"file://{path}{fragment}",
            ],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
        console = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
        assert console == []
        return html.unescape(result.stdout)

    return open_page


def test_the_browser_shows_the_roles_of_the_run(page: str, browse: Callable[..., str]) -> None:
    time = elections_in(data_in(page))[-1][0]
    document = browse(page, f"#t={time}")
    assert 'data-ready="true"' in document
    assert f'data-time="{time}"' in document
    shown = {
        int(node): (role, int(epoch), int(leader))
        for node, role, epoch, leader in re.findall(
            r'data-node="(\d+)" data-role="(\w+)" data-epoch="(\d+)" data-leader="(-?\d+)"',
            document,
        )
    }
    assert shown == states_at(*RUN, time)


def test_the_browser_shows_where_a_log_starts(browse: Callable[..., str]) -> None:
    """Q38: offsets in a snapshot are drawn differently from those in the log."""
    text = play_page(*SNAPSHOTS)
    document = browse(text, f"#t={data_in(text)['end']}")
    starts = [int(start) for start in re.findall(r'data-start="(\d+)"', document)]
    assert len(starts) == len(data_in(text)["states"])
    assert min(starts) > 0
    assert "entry in-snapshot" in document


def test_the_browser_shows_voters_and_targets(browse: Callable[..., str]) -> None:
    """R13: voters, observers and targets while a reassignment runs."""
    page = play_page(*MOVE)
    events = data_in(page)["events"]
    time = next(time for time, _, _, text, _ in events if "target voters: 3, 4, 5" in text)
    document = browse(page, f"#t={time}")
    drawn = re.findall(r'data-node="(\d+)".*?data-voter="(\w+)" data-target="(\w+)"', document)
    assert [(voter, target) for _, voter, target in sorted(drawn)] == (
        [("true", "false")] * 3 + [("false", "true")] * 3
    )
    assert document.count(">is to become a voter<") == 3
    assert document.count(">is to be removed<") == 3
    assert 'class="entry voters' in document


def test_the_page_can_be_navigated(page: str, browse: Callable[..., str]) -> None:
    document = browse(page.replace("</body>", VISIT + "</body>"))
    seen = json.loads(re.findall(r'<pre id="seen">(.*?)</pre>', document)[-1])  # after the script
    data = data_in(page)
    cut = [str(math.ceil(data["faults"][0][0])), f"Fault: {data['faults'][0][2]}."]
    assert seen["slider"] == seen["back"] == seen["fault"] == cut
    assert seen["step"][1] not in {cut[1], ""}
    at, text = seen["election"]
    assert int(at) > int(cut[0])
    assert "hears from no leader and requests pre-votes" in text
    assert int(seen["playing"][0]) == int(at) + 1
    assert seen["filtered"] == [at, text]
    assert seen["kinds"] == ["fault", "role", "vote"]
    assert seen["nodes"] == [-1, len(data["states"]) - 1]
    assert seen["clicked"][1] not in {text, ""}
    assert seen["end"][0] == str(data["end"])


def test_an_error_in_a_page_is_seen(page: str, browse: Callable[..., str]) -> None:
    """The other tests in a browser rely on the console being checked."""
    with pytest.raises(AssertionError, match="CONSOLE"):
        browse(page.replace("begin();\n", "begin(); missing();\n"))


def test_a_picture_is_not_blank(page: str, browse: Callable[..., str], tmp_path: Path) -> None:
    picture = tmp_path / "page.png"
    browse(page, f"#t={elections_in(data_in(page))[-1][0]}", str(picture))
    size, pixels = png(picture.read_bytes())
    assert size == (1280, 800)
    assert len(set(pixels)) > 50, "different rows of pixels"


def png(data: bytes) -> tuple[tuple[int, int], list[bytes]]:
    """Size and filtered rows of an 8-bit PNG: equal rows of a blank page are filtered alike."""
    width, height, _, colours = struct.unpack_from(">IIBB", data, 16)
    body, position = b"", 8
    while position < len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        body += data[position + 8 : position + 8 + length] if kind == b"IDAT" else b""
        position += length + 12
    row = 1 + width * {2: 3, 6: 4}[colours]
    raw = zlib.decompress(body)
    return (width, height), [raw[i : i + row] for i in range(0, height * row, row)]
