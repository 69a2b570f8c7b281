"""Renders a recorded run as one self-contained HTML page with JSON data."""

from __future__ import annotations

import json
import os

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.page.recording import RecordedWorld
from kraftlog_simulator.run import simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from kraftlog_simulator.page.recording import Moment, Recording
    from kraftlog_simulator.run import Outcome

_PARTS = os.path.join(os.path.dirname(__file__), "parts")


def play_page(
    scenario: str,
    seed: int,
    *,
    kinds: Collection[str] | None = None,
    keep: Collection[int] | None = None,
    trace: Callable[[str], None] | None = None,
) -> str:
    """Repeat a run and return its page.

    `kinds` and `keep` limit the faults, by kind and by number in the plan, as in `simulate`.
    """
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
    """The data of the page: entries are lists without field names, which `run.js` has."""
    world.finish()
    recording = world.recording
    when = _page_times(recording)
    return {
        "scenario": outcome.scenario,
        "seed": outcome.seed,
        "outcome": str(outcome),
        "failed": outcome.failed,
        "end": outcome.time_ms,
        "voters": world.setting.voters,
        "observers": world.setting.observers,
        "events": [
            [when(event.at), event.node, event.kind, event.text, event.message]
            for event in recording.events
        ],
        "messages": [
            [
                when(message.sent),
                when(message.arrives) if message.arrives else outcome.time_ms + 1,
                message.source,
                message.target,
                message.kind,
                message.request is not None,
                message.fate,
            ]
            for message in recording.messages
        ],
        "states": [
            [[when(at), *_plain(state)] for at, state in recording.states[replica_id]]
            for replica_id in sorted(recording.states)
        ],
        "faults": [
            [
                when(fault.begin),
                when(fault.end) if fault.end else outcome.time_ms,
                fault.what,
                fault.nodes,
            ]
            for fault in recording.faults
        ],
        "cuts": [[when(at), cuts] for at, cuts in recording.cuts],
    }


def _plain(state: Any) -> list[Any]:
    return [getattr(state, field) for field in state._fields]


def _page_times(recording: Recording) -> Callable[[Moment], float]:
    """Spread the entries of one ms evenly over it.

    The last entry has the whole number: at time 42 everything of ms 42 has happened.
    """

    def when(moment: Moment) -> float:
        time, number = moment
        return round(time - 1 + number / recording.entry_counts[time], 4)

    return when
