"""Renders a recorded run as one self-contained HTML page with JSON data."""

from __future__ import annotations

import json
import os

from kraftlog.simulator.page.recording import RecordedWorld
from kraftlog.simulator.run import simulate
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from kraftlog.simulator.page.recording import Moment, Recording
    from kraftlog.simulator.run import Outcome

_PARTS = os.path.join(os.path.dirname(__file__), "parts")


def play_page(
    scenario: str,
    seed: int,
    *,
    kinds: Collection[str] | None = None,
    keep: Collection[int] | None = None,
    trace: Callable[[str], None] | None = None,
) -> str:
    """Repeat a run and record it."""
    worlds: list[RecordedWorld] = []

    def recorded(*arguments: Any) -> RecordedWorld:
        worlds.append(RecordedWorld(*arguments))
        return worlds[0]

    outcome = simulate(scenario, seed, kinds=kinds, keep=keep, trace=trace, make_world=recorded)
    return render(data_of(worlds[0], outcome))


def render(data: dict[str, Any]) -> str:
    """The page; JSON in a script element must not contain its end tag."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    page = _part("page.html")
    page = page.replace("/* style */", _part("page.css"))
    page = page.replace("/* script */", "\n".join([_part(name) for name in _SCRIPTS]))
    return page.replace("{/* run */}", text)


_SCRIPTS = ("run.js", "ring.js", "logs.js", "timeline.js", "player.js")


def _part(name: str) -> str:
    with open(os.path.join(_PARTS, name), encoding="utf-8") as file:
        return file.read()


def data_of(world: RecordedWorld, outcome: Outcome) -> dict[str, Any]:
    """Lists instead of objects where there are many; the page names their fields."""
    world.finish()
    recording = world.recording
    when = _clock(recording)
    return {
        "scenario": outcome.scenario,
        "seed": outcome.seed,
        "outcome": str(outcome),
        "failed": outcome.failed,
        "end": outcome.time_ms,
        "voters": world.setting.voters,
        "observers": world.setting.observers,
        "events": [[when(e.at), e.node, e.kind, e.text, e.message] for e in recording.events],
        "messages": [
            [
                when(m.sent),
                when(m.lands) if m.lands else outcome.time_ms + 1,
                m.source,
                m.target,
                m.kind,
                m.request is not None,
                m.fate,
            ]
            for m in recording.messages
        ],
        "states": [
            [[when(at), *_plain(state)] for at, state in recording.states[who]]
            for who in sorted(recording.states)
        ],
        "faults": [
            [when(f.begin), when(f.end) if f.end else outcome.time_ms, f.what, f.nodes]
            for f in recording.faults
        ],
        "cuts": [[when(at), cuts] for at, cuts in recording.cuts],
    }


def _plain(state: Any) -> list[Any]:
    return [getattr(state, field) for field in state._fields]


def _clock(recording: Recording) -> Callable[[Moment], float]:
    """Spread the entries of one ms evenly over it.

    The last one has the whole number: at 42 everything of ms 42 has happened.
    """

    def when(moment: Moment) -> float:
        time, place = moment
        return round(time - 1 + place / recording.entry_counts[time], 4)

    return when
