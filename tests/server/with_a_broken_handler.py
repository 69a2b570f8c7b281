"""A node in which requests for metadata meet a mistake of ours."""

from __future__ import annotations

import sys
from typing import Any

from kraftlog.cli import main
from kraftlog.node import api_table
from kraftlog.wire.apis import ApiKey


def broken(*_: Any) -> None:
    raise KeyError("a deliberate mistake")


if __name__ == "__main__":
    api_table._handlers[ApiKey.METADATA] = broken
    sys.exit(main())
