"""The example of docs/use/node.md, a node in a test, runs as the page shows it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "use" / "node.md"


def test_the_example_prints_the_record_that_it_produced() -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    out = io.StringIO()
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(out):
        exec(example, names)
    assert out.getvalue() == "b'a record'\n"
    assert getattr(names["node"], "returncode", None) == 0
