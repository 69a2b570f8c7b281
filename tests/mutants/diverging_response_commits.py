"""A follower takes the high watermark of a diverging response (Q21, Q22)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.fetching",
    source="""\
        _truncate(core, response.diverging)
""",
    replacement="""\
        _truncate(core, response.diverging)
        advance(core, response.high_watermark)
""",
    test="tests/raft/test_follower.py::test_q22_a_diverging_response_moves_no_high_watermark",
)
