"""I16 for voter changes: a change that is reported as committed is in the log.

Source: R2, Q25; Kafka's AddVoterHandler and RemoveVoterHandler, which respond after the commit.
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.invariants.invariant import Invariant

if TYPE_CHECKING:
    from kraftlog.logstate.voters import VoterSet
    from kraftlog_simulator.interfaces import SimulatedWorld
    from kraftlog_simulator.voter_change import VoterChange


class ChangesReported(Invariant):
    name = "changes reported"

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world)
        #: Reported changes, with their end offsets, whose commits have not been seen yet.
        self.reported: list[tuple[VoterChange, int]] = []

    def on_change(self, change: VoterChange, end_offset: int) -> None:
        self.reported.append((change, end_offset))

    def on_full_check(self) -> None:
        """Check changes whose commit was seen; a leader may report one and crash before that."""
        end = self.oracle.committed_end
        committed = [entry for entry in self.reported if entry[1] <= end]
        self.reported = [entry for entry in self.reported if entry[1] > end]
        for change, end_offset in committed:
            recorded = [
                batch.voters
                for batch in self.oracle.committed_batches
                if batch.voters is not None and batch.base_offset < end_offset
            ]
            if change.kind == "update_voter" and not recorded[-1].kraft_version:
                continue  # the leader keeps the update in memory only (R11)
            # The voter may have updated its address again later; each update has a different one.
            sets = recorded if change.kind == "update_voter" else recorded[-1:]
            if not any(is_result_of(voters, change) for voters in sets):
                newest = recorded[-1:]
                self.fail(f"reported that “{change}” is committed before {end_offset}: {newest}")

    def on_end(self) -> None:
        if self.reported:
            self.fail(f"reported as committed, but is not: {self.reported}")


def is_result_of(voters: VoterSet, change: VoterChange) -> bool:
    """Whether a voter set is the result of a change."""
    what = change.what
    if change.kind == "remove_voter":
        return not voters.holds(what)
    if change.kind == "raise_kraft_version":
        return voters.kraft_version >= int(what)
    if change.kind != "reassign":
        same: bool = voters.voter(what.key.id) == what
        return same
    reached = what is not None and voters.targets is None and set(voters.ids) == set(what)
    return reached or voters.targets == (None if what is None else tuple(sorted(what)))
