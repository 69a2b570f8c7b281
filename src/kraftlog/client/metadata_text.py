"""Parses moments of the metadata log; formats positions in it and differences of two states."""

from __future__ import annotations

from kraftlog.client.arguments import time_ms
from kraftlog.metadata.history import Moment
from kraftlog.metadata.tables import TABLES_OF_IMAGE
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from kraftlog.metadata.history import MetadataState
    from kraftlog.metadata.tables import Difference

LATEST = "latest"


def moment_of(text: str) -> Moment:
    """Parse an offset, a time in ISO 8601, or `latest`; raises `ValueError`."""
    if text == LATEST:
        return Moment()
    if text.isdecimal():
        return Moment(offset=int(text))
    try:
        return Moment(time_ms=time_ms(text))
    except ValueError:
        raise ValueError(
            f"{text}: expected an offset, {LATEST} or a time such as 2026-01-31T12:00:00"
        ) from None


def position(state: MetadataState) -> dict[str, Any]:
    """The position of a state in the metadata log, for JSON."""
    return {"offset": state.offset, "epoch": state.epoch, "time": _time_text(state.time_ms)}


def position_text(state: MetadataState) -> str:
    if state.offset < 0:
        return "before the first record"
    return f"offset {state.offset}, epoch {state.epoch}, {_time_text(state.time_ms)}"


def _time_text(time_ms: int) -> str | None:
    from datetime import UTC, datetime

    if time_ms < 0:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


def change_data(change: Difference) -> dict[str, Any]:
    keys = TABLES_OF_IMAGE[change.table].columns
    return {
        "table": change.table,
        "what": change.what,
        "key": dict(zip(keys, change.key, strict=False)),
        "fields": {name: [before, after] for name, before, after in change.fields},
    }


def diff_text(before: MetadataState, after: MetadataState, changes: Sequence[Difference]) -> str:
    lines = [f"from {position_text(before)}", f"to   {position_text(after)}"]
    table = ""
    for change in changes:
        if change.table != table:
            lines.append(f"\n{change.table}")
            table = change.table
        lines += _change_lines(change)
    if not changes:
        lines.append("\nno difference")
    return "\n".join(lines)


def _change_lines(change: Difference) -> Iterator[str]:
    name = " ".join(map(str, change.key))
    if change.what == "changed":
        texts = [f"{field} {_shown(old)} -> {_shown(new)}" for field, old, new in change.fields]
    else:
        values = [
            (field, old if change.what == "removed" else new) for field, old, new in (change.fields)
        ]
        texts = [f"{field} {_shown(value)}" for field, value in values if value not in (None, [])]
    sign = {"added": "+", "removed": "-", "changed": "~"}[change.what]
    yield f"  {sign} {name}: {', '.join(texts)}" if texts else f"  {sign} {name}"


def _shown(value: Any) -> str:
    if value is None or value == []:
        return "none"
    return str(cell(value))


def cell(value: Any) -> Any:
    """A value for a cell of a table: lists become text."""
    return ",".join(map(str, value)) if isinstance(value, list) else value
