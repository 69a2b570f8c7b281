"""The explorer: what it exhausts, that it is not blind, and that names make no difference."""

from __future__ import annotations

from itertools import permutations

import pytest

from kraftlog.simulator.explorer import moves, symmetry
from kraftlog.simulator.explorer.bounds import QUICK, Bound
from kraftlog.simulator.explorer.search import explore
from kraftlog.simulator.explorer.state import ANSWER, REQUEST, State, first_state
from tests.explored import Mutant, all_mutants, explored

BOUND = Bound("for tests", crashes=(1, 1, 1))
MUTANTS = all_mutants()


@pytest.mark.slow
@pytest.mark.parametrize("bound", QUICK, ids=lambda bound: bound.name)
def test_every_run_within_the_bound_keeps_the_invariants(bound: Bound) -> None:
    outcome = explore(bound, max_states=1_000_000)
    assert not outcome.broken, "\n".join(outcome.scenario)
    assert outcome.exhausted
    assert outcome.states > 10_000, "too few to have seen anything"


@pytest.mark.parametrize("name", [name for name in MUTANTS if not MUTANTS[name].is_slow])
def test_a_rule_that_is_broken_is_missed(name: str) -> None:
    mutant = MUTANTS[name]
    outcome = explored(name, mutant, max_states=100_000)
    assert outcome.broken.startswith(mutant.missed_by), outcome
    assert len(outcome.scenario) == outcome.depth + 1
    assert outcome.scenario[-1] == f"    broken: {outcome.broken}"


def test_the_way_to_a_broken_rule_is_told_as_a_scenario() -> None:
    """Nobody but itself elects a node: the shortest way to two leaders takes two moves."""
    outcome = explored("", MUTANTS["minority_elects"], max_states=1000)
    assert [" ".join(line.split()) for line in outcome.scenario] == [
        "1 A: stand A leader 1 [0-1@1] durable 2 committed 0",
        "2 B: stand B leader 1 [0-1@1] durable 2 committed 0",
        "broken: one leader an epoch: epoch 1 has A and B",
    ]


def test_a_mutant_whose_text_is_gone_is_an_error() -> None:
    mutant = Mutant(rule="", missed_by="", module="m", original="a", replacement="b", bound={})
    assert mutant.mutated("xax") == "xbx"
    with pytest.raises(ValueError, match="2 times"):
        mutant.mutated("xaxa")


def election(candidate: int, voter: int, crasher: int) -> State:
    """`candidate` is elected by `voter`, and `crasher` crashes."""
    state = first_state(BOUND)
    for move in (
        ("stand", candidate),
        ("persist", candidate),
        ("deliver", (candidate, voter, REQUEST)),
        ("persist", voter),  # the epoch
        ("persist", voter),  # the vote
        ("deliver", (voter, candidate, ANSWER)),
        ("crash", crasher),
    ):
        state = moves.after(state, move)
    return state


def test_states_that_differ_by_names_have_one_key() -> None:
    elections = [election(a, b, c) for a, b, c in permutations(range(3))]
    assert len({symmetry.key(state) for state in elections}) == 1
    assert len({symmetry.key(election(0, 1, crasher)) for crasher in range(3)}) == 3


def test_a_state_is_not_changed_by_what_follows_it() -> None:
    state = election(0, 1, 2)
    key = symmetry.key(state)
    following = [moves.after(state, move) for move in moves.moves(state, BOUND)]
    assert len(following) > 5
    assert symmetry.key(state) == key
    for node in state.nodes:
        node.keys.clear()
    assert symmetry.key(state) == key


def test_a_node_that_follows_has_heard_nobody() -> None:
    """Time stands still, so a leader that was heard once would be heard for ever."""
    state = election(0, 1, 2)
    for move in (
        ("persist", 0),
        ("flush", 0),
        ("deliver", (0, 2, REQUEST)),  # the vote that it asked for before it won, or its Begin
    ):
        state = moves.after(state, move)
    while state.nodes[2].pending:
        state = moves.after(state, ("persist", 2))
    for place in ((2, 0, ANSWER), (2, 0, REQUEST), (0, 2, ANSWER)):
        if place in state.wire:
            state = moves.after(state, ("deliver", place))
    follower = state.nodes[2].core
    assert (follower.role.name, follower.log.end) == ("follower", 2)
    assert not follower.role.hears_a_leader(follower)
