"""R9: the newest report of a node counts, and only members of the quorum are remembered."""

from __future__ import annotations

import itertools

import pytest

from kraftlog.node.quorum.known_nodes import (
    MAX_AHEAD_MS,
    MAX_UNCONFIRMED,
    KnownNodes,
    NodeReport,
)

NOW_MS = 1_000_000


def known_nodes(*members: int) -> KnownNodes:
    """The known nodes of node 1, in a quorum of these members."""
    return KnownNodes(1, lambda: members)


def report_of(port: int, epoch: int, boot_ms: int, node_id: int = 2) -> NodeReport:
    return NodeReport(node_id, "h", port, epoch, boot_ms)


def test_r9_the_newer_epoch_wins_then_the_newer_start() -> None:
    """The newest report is kept, no matter in which order the reports arrive."""
    reports = [
        report_of(1, 4, 900),
        report_of(2, 5, 100),
        report_of(3, 5, 200),
        report_of(4, -1, -1),
    ]
    for order in itertools.permutations(reports):
        nodes = known_nodes(1, 2, 3)
        for report in order:
            nodes.take(report, NOW_MS)
        assert nodes.of(2) == report_of(3, 5, 200)


def test_r9_an_equally_old_report_changes_nothing() -> None:
    nodes = known_nodes(1, 2, 3)
    assert nodes.take(report_of(1, 5, 100), NOW_MS)
    assert not nodes.take(report_of(2, 5, 100), NOW_MS)
    assert nodes.of(2) == report_of(1, 5, 100)


def test_r9_a_report_with_the_same_address_is_no_news() -> None:
    nodes = known_nodes(1, 2, 3)
    nodes.take(report_of(1, 5, 100), NOW_MS)
    assert not nodes.take(report_of(1, 6, 200), NOW_MS)
    # The report before counts, too: by its epoch and start, this one is older.
    assert not nodes.take(report_of(2, 6, 150), NOW_MS)


@pytest.mark.parametrize("node_id", [1, 4, -1, -2])
def test_r9_only_other_members_are_remembered(node_id: int) -> None:
    """A report of this node itself or of a node outside the quorum is ignored."""
    nodes = known_nodes(1, 2, 3)
    assert not nodes.take(report_of(1, 5, 100, node_id), NOW_MS)
    assert nodes.of(node_id) is None


@pytest.mark.parametrize(
    "report",
    [
        NodeReport(2, "", 9093, 1, 1),
        NodeReport(2, "h" * 256, 9093, 1, 1),
        NodeReport(2, "h", 0, 1, 1),
        NodeReport(2, "h", 9093, 1, NOW_MS + MAX_AHEAD_MS + 1),
        NodeReport(2, "h", 9093, 1, (1 << 63) - 1),
        NodeReport(2, "h", 9093, 1, -2),
    ],
    ids=["no host", "long host", "no port", "over a day ahead", "far ahead", "negative time"],
)
def test_r9_an_impossible_report_is_ignored(report: NodeReport) -> None:
    nodes = known_nodes(1, 2, 3)
    assert not nodes.take(report, NOW_MS)
    assert nodes.of(2) is None


def test_r9_a_node_that_is_no_longer_a_member_is_forgotten() -> None:
    members = [1, 2, 3]
    nodes = KnownNodes(1, lambda: members)
    nodes.take(report_of(1, 5, 100), NOW_MS)
    nodes.take(report_of(1, 5, 100, 3), NOW_MS)
    members.remove(3)
    nodes.keep_members()
    assert nodes.ids == [2]


def test_r10_without_known_voters_few_nodes_are_remembered() -> None:
    """Nodes that are no voters are forgotten once the voters are known."""
    members: list[int] = []
    nodes = KnownNodes(1, lambda: members)
    for node_id in range(2, 2 * MAX_UNCONFIRMED):
        nodes.take(report_of(1, 5, 100, node_id), NOW_MS)
    assert len(nodes.ids) == MAX_UNCONFIRMED
    members += [1, 2, 3]
    nodes.keep_members()
    assert nodes.ids == [2, 3]
