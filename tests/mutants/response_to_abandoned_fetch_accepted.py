"""The response to an abandoned fetch is taken for the response to the current one."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.raft.core",
    source="""\
        if peer.in_flight != message.number:
            return peer, None
""",
    replacement="""\
        is_fetched = isinstance(getattr(message, "body", None), messages.FetchResult)
        late = is_fetched and isinstance(peer.request, messages.Fetch)
        if peer.in_flight != message.number and not late:
            return peer, None
""",
    scenario="late-answers",
    seed=28,
)
