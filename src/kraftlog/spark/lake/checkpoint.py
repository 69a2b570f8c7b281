"""Reads the checkpoint of the query that archives a topic."""

from __future__ import annotations

import json
import os

from kraftlog.spark.lake import layout


def committed_offsets(directory: str, topic: str) -> dict[int, int]:
    """The offsets up to which the archive's query has archived, if its checkpoint says so."""
    path = layout.checkpoint_path(directory, topic)
    try:
        batch = max(
            int(name) for name in os.listdir(os.path.join(path, "commits")) if name.isdigit()
        )
        with open(os.path.join(path, "offsets", str(batch)), encoding="utf-8") as file:
            offsets = json.loads(file.read().splitlines()[-1])[topic]
        return {int(partition): int(offset) for partition, offset in offsets.items()}
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        return {}  # no checkpoint: it is no part of the table
