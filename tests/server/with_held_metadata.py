"""A node that applies no metadata while a file exists, whose path is in its environment."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from kraftlog.cli import main
from kraftlog.node.quorum.commit_applier import CommitApplier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.node.quorum.tail import Piece

#: The environment variable with the path of the file.
HELD = "KRAFTLOG_TEST_HELD_METADATA"
apply = CommitApplier.apply_committed


def apply_unless_held(self: CommitApplier, read: Sequence[Piece] = ()) -> None:
    if read or not os.path.exists(os.environ[HELD]):
        apply(self, read)


if __name__ == "__main__":
    CommitApplier.apply_committed = apply_unless_held  # type: ignore[method-assign]  # to hold the metadata
    sys.exit(main())
