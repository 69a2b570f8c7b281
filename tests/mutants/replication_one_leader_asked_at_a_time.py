"""A leader that does not respond holds back the fetches from the other leaders (V13)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANT = Mutant(
    module="kraftlog.replication.replica_fetchers",
    source="""\
        return any(fetcher.can_send(now) for fetcher in self._fetchers.values())

    def send(self, now: Now) -> None:
""",
    replacement="""\
        return not self._in_flight and any(it.can_send(now) for it in self._fetchers.values())

    def send(self, now: Now) -> None:
        if self._in_flight:
            return
""",
    test=(
        "tests/simulator/cluster/test_replication_rules.py::"
        "test_v13_followers_fetch_from_others_while_a_leader_is_cut_off"
    ),
)
