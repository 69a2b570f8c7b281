"""Tables as text, for commands and pipelines."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, coloured: bool = False) -> str:
    """Format a table; columns of integers are right-aligned, None becomes a dash."""
    rows = [list(row) for row in rows]
    texts = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    columns = []
    for number in range(len(heads)):
        width = max(len(line[number]) for line in (heads, *texts))
        kinds = {type(row[number]) for row in rows} - {type(None)}
        is_numeric = kinds == {int}
        columns.append((width, is_numeric))
    lines = []
    for line in (heads, *texts):
        cells = [
            cell.rjust(width) if is_numeric else cell.ljust(width)
            for cell, (width, is_numeric) in zip(line, columns, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    if coloured:
        lines[0] = f"{_BOLD}{lines[0]}{_PLAIN}"
    return "\n".join(lines)
