"""The explorer exhausts its bounds, detects mutants, and treats node names alike."""

from __future__ import annotations

import ast
from itertools import permutations
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from kraftlog_simulator.explorer.bounds import BOUNDS, NODES, QUICK, Bound
from kraftlog_simulator.explorer.quorum import PLACE_OF, REQUEST, RESPONSE, Quorum
from kraftlog_simulator.explorer.quorum_space import QuorumSpace
from kraftlog_simulator.explorer.search import explore
from kraftlog_simulator.explorer.step import step
from kraftlog_simulator.explorer.symmetry import Symmetry
from tests.altered import Change
from tests.explored import Mutant, all_mutants, explore_mutant, is_as_expected

if TYPE_CHECKING:
    from kraftlog_simulator.explorer.node import Node
    from kraftlog_simulator.explorer.quorum import Move, State

BOUND = Bound("for tests", crashes=(1, 1, 1))
MUTANTS = all_mutants()


@pytest.mark.slow
@pytest.mark.parametrize("bound", QUICK, ids=lambda bound: bound.name)
def test_every_run_within_the_bound_keeps_the_invariants(bound: Bound) -> None:
    outcome = explore(QuorumSpace(bound))
    assert not outcome.broken, "\n".join(outcome.trace)
    assert outcome.exhausted
    assert outcome.states > 10_000, "too few states to prove anything"


@pytest.mark.parametrize("name", [name for name in MUTANTS if not MUTANTS[name].is_slow])
def test_a_broken_rule_is_detected(name: str) -> None:
    mutant = MUTANTS[name]
    outcome = explore_mutant(name, mutant)
    assert is_as_expected(mutant, outcome), outcome
    assert len(outcome.trace) == outcome.depth + 1
    assert outcome.trace[-1] == f"    broken: {outcome.broken}"


def test_a_search_ends_at_its_limit() -> None:
    outcome = explore(QuorumSpace(BOUND.replace(max_states=50)))
    assert not outcome.exhausted
    assert 50 <= outcome.states < 100
    assert not explore(QuorumSpace(BOUND), lambda: False).exhausted


def test_the_path_to_a_violation_is_printed() -> None:
    """Each node elects itself: the shortest path to two leaders has two moves."""
    outcome = explore_mutant("", MUTANTS["minority_elects"])
    assert [" ".join(line.split()) for line in outcome.trace] == [
        "1 A: campaign A leader 1 [0-1@1] durable 2 committed 0",
        "2 B: campaign B leader 1 [0-1@1] durable 2 committed 0",
        "broken: one leader an epoch: epoch 1 has A and B",
    ]


@pytest.mark.parametrize("name", MUTANTS)
def test_the_statement_of_a_mutant_is_in_its_function_once(name: str) -> None:
    """Also of the slow mutants, which only `make explore` explores."""
    for change in MUTANTS[name].changes:
        ast.parse(change.altered_file())


def test_a_mutant_may_have_several_changes_of_several_modules() -> None:
    modules = {change.module for change in MUTANTS["stale_leader_names_truncation"].changes}
    mutant = Mutant(
        breaks="",
        detected_by="",
        changes=(Change("m:", "a", "b"), Change("n:", "a", "c"), Change("m:", "x", "y")),
        bound={},
    )
    assert len(modules) > 1
    assert mutant.altered("m", "x = a") == "y = b"
    assert mutant.altered("n", "x = a") == "x = c"


@pytest.fixture
def quorum() -> Quorum:
    return Quorum(BOUND)


def deliver(source: int, target: int, kind: int) -> Move:
    return "deliver", PLACE_OF[source, target, kind], None


def election(quorum: Quorum, candidate: int, voter: int, crasher: int) -> State:
    """The state after `voter` has elected `candidate`, and `crasher` has crashed."""
    state = quorum.first
    for move in (
        ("campaign", candidate, None),
        ("persist", candidate, None),
        deliver(candidate, voter, REQUEST),
        ("persist", voter, None),  # the epoch
        ("persist", voter, None),  # the vote
        deliver(voter, candidate, RESPONSE),
        ("crash", crasher, None),
    ):
        state = quorum.after(state, move)
    return state


def test_states_that_differ_by_names_have_one_key(quorum: Quorum) -> None:
    key = Symmetry(quorum).key
    elections = [election(quorum, a, b, c) for a, b, c in permutations(range(NODES))]
    assert len({key(state) for state in elections}) == 1
    assert len({key(election(quorum, 0, 1, crasher)) for crasher in range(NODES)}) == NODES


def test_numbered_nodes_are_never_changed(quorum: Quorum) -> None:
    state = election(quorum, 0, 1, 2)
    before = [quorum.nodes.number(quorum.nodes[n], i) for i, n in enumerate(state[:NODES])]
    assert len([quorum.after(state, move) for move in quorum.moves(state)]) > 5
    after = [quorum.nodes.number(quorum.nodes[n], i) for i, n in enumerate(state[:NODES])]
    assert before == after == list(state[:NODES])


class RealNodes(Quorum):
    """Keeps a real node beside the tables of results, and applies every event to it too."""

    def __init__(self, bound: Bound) -> None:
        super().__init__(bound)
        self.real = [self.nodes[number] for number in self.first[:NODES]]

    def _apply(self, state: list[int], node_id: int, event: str, argument: Any) -> None:
        number = state[node_id]
        super()._apply(state, node_id, event, argument)
        self._compare_with_real_node(node_id, (number, event, argument))

    def _give_up(self, state: list[int], sender: int, peer: int) -> None:
        number = state[peer]
        super()._give_up(state, sender, peer)
        if state[peer] != number:
            self._compare_with_real_node(peer, (number, "forget", sender))

    def _compare_with_real_node(self, node_id: int, step_key: tuple[int, str, Any]) -> None:
        """Apply a step to the real node, and compare the result with the tables."""
        _, event, argument = step_key
        expected = self._steps[step_key]
        result = step(
            self.real[node_id], event, self.messages[argument] if event == "receive" else argument
        )
        self.real[node_id] = result.node
        assert self.nodes.number(result.node, node_id) == expected.node, step_key
        sent = [self.messages.number(message) for message in result.sent]
        assert sent == [message for _, message in expected.sent], step_key
        assert result.given_up == expected.given_up
        assert result.node.batches == self.nodes[expected.node].batches  # also their payloads


def test_a_step_depends_on_the_keys_of_node_and_message_alone() -> None:
    """A node with a long history acts like any other with the same key."""
    rng = Random(1)
    for bound in (BOUND, *BOUNDS):
        quorum = RealNodes(bound)
        first: list[Node] = quorum.real[:]
        for _ in range(60):
            state, quorum.real = quorum.first, first[:]
            for _ in range(40):
                moves = quorum.moves(state)
                if not moves:
                    break
                state = quorum.after(state, rng.choice(moves))


def settled_states(quorum: Quorum) -> set[Any]:
    """All reachable states without pending writes, with what is visible of each node."""
    reached, settled, pending = {quorum.first}, set(), [quorum.first]
    while pending:
        state = pending.pop()
        nodes = [quorum.nodes[number] for number in state[:NODES]]
        if not any(node.pending or node.core.log.flushed < node.core.log.end for node in nodes):
            settled.add(
                (tuple([visible_state(node) for node in nodes]), quorum.histories[state[3]])
            )
        for move in quorum.moves(state):
            next_state = quorum.after(state, move)
            quorum.check(next_state)
            if next_state not in reached:
                reached.add(next_state)
                pending.append(next_state)
    return settled


def visible_state(node: Node) -> Any:
    core = node.core
    return core.role.name, node.election, node.batches, core.log.high_watermark


class AllMovesQuorum(Quorum):
    """Omits no moves."""

    def moves(self, state: State) -> list[Move]:
        return self.all_moves(state)


@pytest.mark.slow
def test_omitted_moves_make_no_difference() -> None:
    """The time of a response to BeginQuorumEpoch changes no visible state."""
    bound = Bound("for tests", epochs=1, records=0, crashes=(0, 0, 0))
    assert settled_states(Quorum(bound)) == settled_states(AllMovesQuorum(bound))


@pytest.mark.slow
def test_writing_at_once_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that cannot crash write at once; the states without pending writes are the same."""
    bound = Bound("for tests", epochs=1, records=0, crashes=(0, 0, 0))
    at_once = settled_states(Quorum(bound))
    monkeypatch.setattr("kraftlog_simulator.explorer.step._write_at_once", lambda _: False)
    assert settled_states(Quorum(bound)) == at_once


def test_a_follower_has_heard_from_no_leader(quorum: Quorum) -> None:
    """The explorer has no time, so contact with a leader would never expire."""
    state = election(quorum, 0, 1, 2)
    for move in (
        ("persist", 0, None),
        ("flush", 0, None),
        deliver(0, 2, REQUEST),  # its earlier vote request, or its BeginQuorumEpoch
    ):
        state = quorum.after(state, move)
    while quorum.nodes[state[2]].pending:
        state = quorum.after(state, ("persist", 2, None))
    for move in (deliver(2, 0, RESPONSE), deliver(2, 0, REQUEST), deliver(0, 2, RESPONSE)):
        if state[move[1]]:
            state = quorum.after(state, move)
    follower = quorum.nodes[state[2]].core
    assert (follower.role.name, follower.log.end) == ("follower", 2)
    assert not follower.role.has_live_leader(follower)
