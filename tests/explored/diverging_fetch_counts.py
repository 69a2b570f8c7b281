"""Breaks Q19: a fetch counts although the logs diverge before its offset."""

from __future__ import annotations

from tests.explored import Mutant

MUTANT = Mutant(
    breaks="Q19: a fetch counts although the logs diverge before its offset",
    detected_by="what is committed is durable on a majority",
    module="kraftlog.raft.roles.leader",
    original="        diverging = core.log.divergence(fetch.offset, fetch.last_epoch)\n",
    replacement=(
        "        self.progress.of(fetch.replica).end_offset = fetch.offset\n"
        "        diverging = core.log.divergence(fetch.offset, fetch.last_epoch)\n"
    ),
    bound={"epochs": 2, "records": 0, "crashes": (0, 0, 0)},
)
