"""`Admin`: describes and changes the metadata quorum of kraftlog or Apache Kafka.

    from kraftlog import Admin

    with Admin("localhost:9092") as admin:
        for voter in admin.describe_quorum().voters:
            print(voter.id, voter.log_end_offset)

Every call blocks until it succeeds, is refused, or `timeout_s` is over. To find the cause of a
time-out takes up to two seconds more. Use it in one thread.
"""

from __future__ import annotations

from kraftlog.client import arguments, nodes, voter_plans
from kraftlog.client.connected import ConnectedToCluster
from kraftlog.client.nodes import ClusterDescription, Quorum, Replica
from kraftlog.client.voter_plans import AddVoterPlan, ReassignVotersPlan
from kraftlog.types import uuid_from_text
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid

__all__ = [
    "AddVoterPlan",
    "Admin",
    "ClusterDescription",
    "Listener",
    "Quorum",
    "ReassignVotersPlan",
    "RepairPlan",
    "Replica",
]


class Listener(Value):
    """A listener of a controller; `name` is that of the controller listener in its settings."""

    name: str
    host: str
    port: int


class RepairPlan(Value):
    """What the repair of a directory would do; `loss` confirms what may be lost ("" if nothing)."""

    lines: tuple[str, ...]
    current_voters: tuple[int, ...]
    new_voters: tuple[int, ...]
    loss: str


class Admin(ConnectedToCluster):
    """An administrator of the quorum of the cluster with these bootstrap `servers`.

    `controllers=True`: the servers are controllers, else brokers.
    """

    def __init__(
        self,
        servers: str = "127.0.0.1:9092",
        *,
        controllers: bool = False,
        timeout_s: float = 30.0,
        client_id: str = "kraftlog-admin",
    ) -> None:
        super().__init__(servers, client_id, timeout_s, controllers=controllers)

    def describe_cluster(self, *, fenced: bool = False) -> ClusterDescription:
        """The cluster id and its brokers, or controllers; `fenced` includes fenced brokers."""
        return nodes.describe(self.cluster, fenced=fenced)

    def describe_quorum(self) -> Quorum:
        """The leader, the voters and the observers, with the lag of each."""
        return nodes.quorum(self.cluster)

    def add_voter(
        self,
        voter: int,
        directory: Uuid | str,
        listeners: Sequence[Listener | tuple[str, str, int]],
        *,
        dry_run: bool = False,
    ) -> AddVoterPlan:
        """Add a controller, which fetches already, to the voters; returns once it is committed.

        The plan is what the leader described before. With `dry_run` nothing changes. `ConfigError`
        says that the controller is a voter, does not fetch or has never caught up, that no
        majority fetches, that a change is unfinished, or that kraft.version is 0. Whether the
        leader reaches the listeners, and which kraft.version the controller supports, is not
        checked.
        """
        arguments.number("voter", voter)
        found = _uuid(directory)
        addresses = _listeners(listeners)
        limit = self.cluster.deadline()
        if dry_run:
            return voter_plans.plan_addition(self.cluster, voter, found, limit)
        quorum = voter_plans.describe_before_adding(self.cluster, voter, limit)
        voter_plans.add(self.cluster, voter, found, addresses, limit)
        return voter_plans.addition_plan(quorum, voter, found)

    def remove_voter(
        self, voter: int, directory: Uuid | str | None = None, *, dry_run: bool = False
    ) -> Uuid:
        """Remove a voter, by its id alone or with its directory; return the directory id.

        With `dry_run` nothing changes; only whether there is such a voter is checked.
        """
        arguments.number("voter", voter)
        found = None if directory is None else _uuid(directory)
        limit = self.cluster.deadline()
        if found is None or dry_run:
            found = nodes.voter_directory(self.cluster, voter, found, limit)
        if not dry_run:
            nodes.remove_voter(self.cluster, voter, found, limit)
        return found

    def update_voter(
        self,
        voter: int,
        listeners: Sequence[Listener | tuple[str, str, int]],
        *,
        versions: tuple[int, int] = (0, 1),
        dry_run: bool = False,
    ) -> Uuid:
        """Change the listeners of a voter, and its range of kraft.version; needs controllers.

        It is for a controller that is down and will return at another address: a running one keeps
        its own record current, and undoes the change. Returns the directory id of the voter. With
        `dry_run` nothing changes; only whether there is such a voter is checked.
        """
        arguments.number("voter", voter)
        addresses = _listeners(listeners)
        if dry_run:
            return nodes.voter_directory(self.cluster, voter)
        return nodes.update_voter(self.cluster, voter, addresses, versions)

    def reassign_voters(
        self, targets: Sequence[int] | None, *, dry_run: bool = False
    ) -> ReassignVotersPlan:
        """Move the quorum to these voters, one by one; None cancels an unfinished move.

        Returns once the targets are committed: `describe_quorum` shows them until they are reached.
        The leader has to be a node of kraftlog. With `dry_run` nothing changes. `ConfigError` says
        that the targets are not different ids, that no move can be cancelled, or that kraft.version
        is 0.
        """
        limit = self.cluster.deadline()
        quorum = nodes.quorum(self.cluster, limit)
        if dry_run:
            voter_plans.check_reassignment(self.cluster, quorum, targets, limit)
        else:
            nodes.reassign_voters(self.cluster, targets, limit)
        return voter_plans.reassignment_plan(quorum, targets)

    @staticmethod
    def plan_repair(data: str, voters: Sequence[tuple[int, Listener]]) -> RepairPlan:
        """What the repair of a stopped node's directory would do; changes nothing.

        `kraftlog quorum repair` carries it out.
        """
        from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter, VoterSet
        from kraftlog.raft.repair import describe_repair, possible_losses
        from kraftlog.runner.repair import SurvivingDirectory
        from kraftlog.server.files import OsFiles
        from kraftlog.types import NULL_UUID

        wanted = VoterSet(
            tuple(
                Voter(ReplicaKey(number, NULL_UUID), (Endpoint(at.name, at.host, at.port),))
                for number, at in sorted(voters, key=lambda item: item[0])
            )
        )
        survivor = SurvivingDirectory(OsFiles(), data.rstrip("/") or "/")
        try:
            remains = survivor.state
            return RepairPlan(
                (*survivor.recovery, *describe_repair(remains, wanted)),
                remains.voters.ids,
                wanted.ids,
                remains.point if possible_losses(remains) else "",
            )
        finally:
            survivor.close()


def _uuid(given: Uuid | str) -> Uuid:
    return uuid_from_text(given) if isinstance(given, str) else given


def _listeners(given: Sequence[Listener | tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    return [
        (each.name, each.host, each.port) if isinstance(each, Listener) else each for each in given
    ]
