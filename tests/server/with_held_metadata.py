"""A node that applies no metadata while the file that its environment names is there."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from kraftlog.cli import main
from kraftlog.node.quorum.commit_applier import CommitApplier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.node.quorum.tail import Piece

HELD = "KRAFTLOG_TEST_HELD_METADATA"
begin = CommitApplier._begin


def begin_unless_held(self: CommitApplier, read: Sequence[Piece]) -> None:
    if read or not os.path.exists(os.environ[HELD]):
        begin(self, read)


if __name__ == "__main__":
    CommitApplier._begin = begin_unless_held  # type: ignore[method-assign]  # to hold the metadata
    sys.exit(main())
