"""The voter set in force at each offset of a log."""

from __future__ import annotations

import pytest

from kraftlog.logstate.voters import VoterHistory, VoterSet, voters_by_id

ONE, TWO = voters_by_id(1), voters_by_id(1, 2)
TO_THREE = TWO.replace(targets=(3,))


@pytest.mark.parametrize(
    ("base", "entries", "since"),
    [
        (ONE, (), -1),
        (ONE, ((0, ONE),), -1),
        (ONE, ((0, ONE), (5, TWO)), 5),
        (ONE, ((0, ONE), (5, TWO), (9, TO_THREE)), 5),
        (TWO, ((9, TO_THREE),), -1),
        (ONE, ((9, TO_THREE),), 9),
    ],
)
def test_r7_members_are_in_force_since_the_record_that_changed_them(
    base: VoterSet, entries: tuple[tuple[int, VoterSet], ...], since: int
) -> None:
    """Records that change only targets or addresses do not change the members."""
    assert VoterHistory(base, entries).members_since == since
