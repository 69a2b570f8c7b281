"""`kraftlog decommission`: refusals in a cluster of one node, moves while brokers are fenced."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kraftlog.cli import decommission
from kraftlog.cli.balance import TooFewBrokersError
from kraftlog.client.deadline import Deadline
from kraftlog.client.model import Broker, Partition, Topic
from kraftlog.client.nodes import ClusterDescription
from kraftlog.client.reassignments import Reassignment
from kraftlog.errors import ClientError, ErrorCode, RefusedError
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraftlog.client.client import Client
    from kraftlog.client.model import PartitionName
    from tests.cli.shell import Shell

OPTIONS = Namespace(node=3, disable_rack_aware=False)


class ClusterOfFour:
    """A client of a cluster of brokers 1 to 4 with one partition; broker 2 is fenced at first."""

    def __init__(
        self,
        *replicas: int,
        fenced_descriptions: int = 0,
        refusals: int = 0,
        timeout_s: float = LIMIT_S,
        ongoing: Reassignment | None = None,
    ) -> None:
        self.replicas, self.refusals = replicas, refusals
        self.fenced_descriptions = fenced_descriptions
        self.cluster, self.timeout_s, self.ongoing = self, timeout_s, ongoing
        self.may_change_factor: list[bool] = []

    def deadline(self) -> Deadline:
        return Deadline(self.timeout_s)

    def reassignments(self) -> dict[PartitionName, Reassignment]:
        return {} if self.ongoing is None else {("a", 0): self.ongoing}

    def topics(self) -> list[Topic]:
        return [Topic("a", False, (Partition("a", 0, 3, 1, self.replicas, self.replicas),))]

    def describe_cluster(self, *, fenced: bool) -> ClusterDescription:
        assert fenced
        self.fenced_descriptions -= 1
        is_fenced = self.fenced_descriptions >= 0
        brokers = [Broker(i, "127.0.0.1", 1, None, is_fenced and i == 2) for i in (1, 2, 3, 4)]
        return ClusterDescription("cluster", 1, tuple(brokers))

    def reassign_partitions(
        self,
        targets: Mapping[PartitionName, Sequence[int]],
        *,
        allow_replication_factor_change: bool,
    ) -> dict[PartitionName, RefusedError]:
        self.may_change_factor.append(allow_replication_factor_change)
        if self.refusals:
            self.refusals -= 1
            code = ErrorCode.INVALID_REPLICATION_FACTOR
            return {name: RefusedError(code, api="test", broker="test") for name in targets}
        (self.replicas,), self.ongoing = map(tuple, targets.values()), None
        return {}


def move(cluster: ClusterOfFour, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decommission, "POLL_S", 0)
    decommission._move_partitions(cast("Client", cluster), OPTIONS)


def test_r14_impossible_removals_are_refused_before_any_change(shell: Shell) -> None:
    shell.run("topics --create --if-not-exists --topic stays")
    assert "is the only voter: add another one first" in shell.fails("decommission 1")
    plan = shell.json("decommission 9 --dry-run")
    assert plan == {"node": 9, "removeVoter": False, "move": [], "unregister": False}


def test_r14_an_error_for_lack_of_brokers_names_the_fenced_ones() -> None:
    client: Any = ClusterOfFour(1, 3, 4, fenced_descriptions=1)
    expected = "3 replicas need 3 other brokers; there are 2 .fenced, not counted: 2."
    with pytest.raises(ClientError, match=expected):
        decommission._moves(client, OPTIONS)


def test_r14_moves_wait_until_enough_brokers_are_unfenced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = ClusterOfFour(1, 3, 4, fenced_descriptions=3, timeout_s=0)
    move(cluster, monkeypatch)
    assert sorted(cluster.replicas) == [1, 2, 4]
    assert capsys.readouterr().err == (
        "waiting for other brokers: 3 replicas need 3 other brokers; there are 2 (fenced, not "
        "counted: 2)\n1 partitions to be moved from node 3\n"
    )


def test_r14_a_fenced_broker_keeps_its_own_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ClusterOfFour(2, 3, 4, fenced_descriptions=100)
    move(cluster, monkeypatch)
    assert cluster.replicas == (2, 1, 4)


def test_r14_a_refused_plan_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that lags may still show the replicas of a reassignment that has ended."""
    cluster = ClusterOfFour(1, 3, 4, refusals=2)
    move(cluster, monkeypatch)
    assert sorted(cluster.replicas) == [1, 2, 4]
    assert cluster.may_change_factor == [False] * 3


def test_r14_a_plan_that_stays_refused_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ClusterOfFour(1, 3, 4, refusals=2, timeout_s=0)
    with pytest.raises(RefusedError, match="INVALID_REPLICATION_FACTOR"):
        move(cluster, monkeypatch)
    assert cluster.refusals == 1


def test_r14_more_replicas_than_other_brokers_end_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(TooFewBrokersError, match="4 replicas need 4 other brokers; there are 3"):
        move(ClusterOfFour(1, 2, 3, 4, timeout_s=0), monkeypatch)


def test_r14_an_ongoing_reassignment_keeps_its_own_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    growing = Reassignment(replicas=(1, 4, 3), adding=(3,), removing=())
    cluster = ClusterOfFour(1, 4, 3, ongoing=growing)
    move(cluster, monkeypatch)
    assert sorted(cluster.replicas) == [1, 2, 4]
    assert cluster.may_change_factor == [True]
