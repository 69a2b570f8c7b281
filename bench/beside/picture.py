"""The comparison as a picture: a bar per row on a logarithmic scale, with marks for goals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from bench.beside.rows import KAFKA, KRAFTLOG, ROWS, SECTIONS, TITLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.beside.figures import Result

#: Widths of the columns for labels, bars and figures, in units of the picture (pixels).
LABELS, SCALE, RIGHT = 440, 400, 165
#: Heights of a bar's line, of a heading, and of the margins.
LINE, HEADING, TOP, BOTTOM = 20, 34, 64, 30
#: For light and dark backgrounds; `even` is the line of 1×, equal to Kafka.
STYLE = """
.paper { fill: #ffffff; }
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.small { font-size: 12px; fill: #59636e; }
.heading { font-weight: 600; }
.reached { fill: #1a7f5a; } .missed { fill: #c4622d; } .free { fill: #8c959f; }
.goal { stroke: #1f2328; stroke-width: 2.5; }
.grid { stroke: #d1d9e0; } .even { stroke: #59636e; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #0d1117; }
  text { fill: #f0f6fc; } .small { fill: #9198a1; }
  .reached { fill: #3fb98a; } .missed { fill: #e0864f; } .free { fill: #656c76; }
  .goal { stroke: #f0f6fc; } .grid { stroke: #3d444d; } .even { stroke: #9198a1; }
}
"""


@dataclass(frozen=True)
class Bar:
    """How many times better than Kafka the figure of a row is, and how many times the goal is."""

    what: str
    times: float
    goal: float | None

    @property
    def kind(self) -> str:
        if self.goal is None:
            return "free"
        return "reached" if self.times >= self.goal else "missed"


def bars(section: str, result: Result) -> list[Bar]:
    drawable = []
    for row in ROWS[section]:
        medians = result.medians(row.key)
        if medians.keys() >= {KAFKA, KRAFTLOG} and min(medians.values()) > 0:
            kafka = medians[KAFKA]
            better = row.times_better(kafka, medians[KRAFTLOG])
            drawable.append(Bar(row.what, better, row.goal_times(kafka)))
    return drawable


def picture(results: Mapping[str, Result]) -> str:
    """The whole picture as SVG."""
    sections = [
        (TITLES[section], bars(section, results[case]))
        for case, names in SECTIONS.items()
        if case in results
        for section in names
    ]
    low, high = extent([bar for _, each in sections for bar in each])
    height = TOP + BOTTOM + sum(HEADING + LINE * len(each) for _, each in sections)
    width = LABELS + SCALE + RIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>kraftlog beside Apache Kafka: how many times better</title>",
        f"<style>{STYLE}</style>",
        '<rect class="paper" width="100%" height="100%" rx="6"/>',
        *legend(),
        *grid(low, high, height),
    ]
    y = TOP
    for title, each in sections:
        y += HEADING
        lines.append(text(LABELS - 8, y - 8, title, "heading", "end"))
        for bar in each:
            lines += bar_lines(bar, y, low, high)
            y += LINE
    return "\n".join([*lines, "</svg>", ""])


def extent(all_bars: list[Bar]) -> tuple[int, int]:
    """The powers of ten that enclose all bars and marks."""
    all_times = [1.0, 10.0, *(t for bar in all_bars for t in (bar.times, bar.goal or 1.0))]
    return math.floor(math.log10(min(all_times))), math.ceil(math.log10(max(all_times)))


def x_of(times: float, low: int, high: int) -> float:
    return LABELS + SCALE * (math.log10(times) - low) / (high - low)


def legend() -> Iterator[str]:
    yield text(LABELS, 18, "how many times better than Apache Kafka in the same run", "small")
    x = 16
    for kind, words in (("reached", "goal reached"), ("missed", "not yet"), ("free", "no goal")):
        yield f'<rect class="{kind}" x="{x}" y="8" width="12" height="12"/>'
        yield text(x + 18, 18, words, "small")
        x += 110
    yield f'<line class="goal" x1="{x}" y1="6" x2="{x}" y2="22"/>'
    yield text(x + 8, 18, "goal", "small")


def grid(low: int, high: int, height: int) -> Iterator[str]:
    for power in range(low, high + 1):
        x = x_of(10.0**power, low, high)
        kind = "even" if power == 0 else "grid"
        yield f'<line class="{kind}" x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 12}"/>'
        label = "1× Kafka" if power == 0 else f"{10.0**power:,g}×"
        yield text(x, TOP - 14, label, "small", "middle")


def bar_lines(bar: Bar, y: int, low: int, high: int) -> Iterator[str]:
    ends = sorted((x_of(1, low, high), x_of(bar.times, low, high)))
    edge = LABELS + SCALE + RIGHT
    yield text(LABELS - 8, y + 12, bar.what, "", "end")
    yield (
        f'<rect class="{bar.kind}" x="{ends[0]:.1f}" y="{y + 2}" '
        f'width="{max(1.0, ends[1] - ends[0]):.1f}" height="{LINE - 7}"/>'
    )
    yield text(edge - 96, y + 12, f"{bar.times:.3g}×", "", "end")
    if bar.goal is not None:
        x = x_of(bar.goal, low, high)
        yield f'<line class="goal" x1="{x:.1f}" y1="{y - 1}" x2="{x:.1f}" y2="{y + LINE - 3}"/>'
        yield text(edge - 10, y + 12, f"goal {bar.goal:.3g}×", "small", "end")


def text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    cls = f' class="{kind}"' if kind else ""
    return f'<text{cls} x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'
