"""`Admin`: describes and changes the metadata quorum of kraftlog or Apache Kafka.

    from kraftlog import Admin

    with Admin("localhost:9092") as admin:
        for voter in admin.describe_metadata_quorum().voters:
            print(voter.id, voter.log_end_offset)

Every call blocks until it succeeds, is refused, or `timeout_s` is over. After a timeout, finding
its cause takes up to two seconds more. Use an admin in one thread.
"""

from __future__ import annotations

from kraftlog.client import arguments, nodes, voter_plans
from kraftlog.client.connected import ConnectedToCluster
from kraftlog.client.deadline import Deadline
from kraftlog.client.nodes import ClusterDescription, Quorum, Replica
from kraftlog.client.voter_plans import AddVoterPlan, ReassignVotersPlan
from kraftlog.types import uuid_from_text
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    """The controller listener of a controller; `name` is the one in `controller.listener.names`."""

    name: str
    host: str
    port: int


class RepairPlan(Value):
    """What the repair of a directory would do."""

    #: For the operator: what recovery truncated, the state of the directory and the plan.
    lines: tuple[str, ...]
    current_voters: tuple[int, ...]
    new_voters: tuple[int, ...]
    #: The value of --accept-loss that accepts the possible losses; empty if nothing can be lost.
    loss: str


class Admin(ConnectedToCluster):
    """An administrator of the quorum of the cluster with these bootstrap `servers`.

    `controllers=True`: the servers are controllers, else brokers. `security`: as for `Client`.
    """

    def __init__(
        self,
        servers: str = "127.0.0.1:9092",
        *,
        controllers: bool = False,
        timeout_s: float = 30.0,
        client_id: str = "kraftlog-admin",
        security: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(servers, client_id, timeout_s, controllers=controllers, security=security)

    def describe_cluster(self, *, fenced: bool = False) -> ClusterDescription:
        """The cluster id and its brokers, or controllers; `fenced` includes fenced brokers."""
        return nodes.describe(self.cluster, fenced=fenced)

    def describe_metadata_quorum(self, *, timeout_s: float | None = None) -> Quorum:
        """The leader, voters and observers, with the log end offset and timestamps of each.

        `timeout_s`: instead of this admin's own. A cluster that does not let this client describe
        it raises `RefusedError` with CLUSTER_AUTHORIZATION_FAILED.
        """
        if timeout_s is None:
            return nodes.quorum(self.cluster)
        return nodes.quorum(self.cluster, Deadline(arguments.seconds("timeout_s", timeout_s)))

    def describe_quorum(self) -> Quorum:
        """`describe_metadata_quorum` by its shorter name."""
        return self.describe_metadata_quorum()

    def add_voter(
        self,
        voter: int,
        directory: Uuid | str,
        listeners: Sequence[Listener | tuple[str, str, int]],
        *,
        dry_run: bool = False,
    ) -> AddVoterPlan:
        """Add a controller, which must fetch already, to the voters; return once that is committed.

        The plan shows the quorum before the change. With `dry_run` nothing changes; `ConfigError`
        is raised if the controller is a voter, does not fetch or has never caught up, if no
        majority fetches, if a change is unfinished, or if kraft.version is 0. A dry run does not
        check whether the leader reaches the listeners, nor which kraft.version the controller
        supports.
        """
        arguments.number("voter", voter)
        directory_id = _uuid(directory)
        addresses = _listeners(listeners)
        deadline = self.cluster.deadline()
        if dry_run:
            return voter_plans.checked_addition_plan(self.cluster, voter, directory_id, deadline)
        quorum = voter_plans.describe_before_adding(self.cluster, voter, deadline)
        voter_plans.add(self.cluster, voter, directory_id, addresses, deadline)
        return voter_plans.addition_plan(quorum, voter, directory_id)

    def remove_voter(
        self, voter: int, directory: Uuid | str | None = None, *, dry_run: bool = False
    ) -> Uuid:
        """Remove a voter, by its id alone or with its directory; return the directory id.

        With `dry_run` nothing changes; only whether there is such a voter is checked.
        """
        arguments.number("voter", voter)
        directory_id = None if directory is None else _uuid(directory)
        deadline = self.cluster.deadline()
        if directory_id is None or dry_run:
            directory_id = nodes.voter_directory(self.cluster, voter, directory_id, deadline)
        if not dry_run:
            nodes.remove_voter(self.cluster, voter, directory_id, deadline)
        return directory_id

    def update_voter(
        self,
        voter: int,
        listeners: Sequence[Listener | tuple[str, str, int]],
        *,
        versions: tuple[int, int] = (0, 1),
        dry_run: bool = False,
    ) -> Uuid:
        """Change the listeners of a voter and its range of kraft.version.

        `servers` have to be controllers. This is for a controller that is down and will return at
        another address: a running one updates its own record, which undoes the change. Returns the
        directory id of the voter. With `dry_run` nothing changes; only whether there is such a
        voter is checked.
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
        The leader has to be a node of kraftlog. With `dry_run` nothing changes; `ConfigError` is
        raised if the targets are not distinct ids, if there is no move to cancel, or if
        kraft.version is 0.
        """
        deadline = self.cluster.deadline()
        quorum = nodes.quorum(self.cluster, deadline)
        if dry_run:
            voter_plans.check_reassignment(self.cluster, quorum, targets, deadline)
        else:
            nodes.reassign_voters(self.cluster, targets, deadline)
        return voter_plans.reassignment_plan(quorum, targets)

    @staticmethod
    def plan_repair(data: str, voters: Sequence[tuple[int, Listener]]) -> RepairPlan:
        """What the repair of a stopped node's data directory would do; changes nothing.

        `data` is the path of the directory; `voters` are the new voters: (node id, listener).
        `kraftlog quorum repair` carries it out.
        """
        from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter, VoterSet
        from kraftlog.raft.repair import describe_repair, possible_losses
        from kraftlog.runner.repair import SurvivingDirectory
        from kraftlog.server.files import OsFiles
        from kraftlog.types import NULL_UUID

        new_voters = VoterSet(
            tuple(
                Voter(
                    ReplicaKey(node_id, NULL_UUID),
                    (Endpoint(listener.name, listener.host, listener.port),),
                )
                for node_id, listener in sorted(voters, key=lambda item: item[0])
            )
        )
        survivor = SurvivingDirectory(OsFiles(), data.rstrip("/") or "/")
        try:
            state = survivor.state
            return RepairPlan(
                (*survivor.recovery, *describe_repair(state, new_voters)),
                state.voters.ids,
                new_voters.ids,
                state.point if possible_losses(state) else "",
            )
        finally:
            survivor.close()


def _uuid(directory: Uuid | str) -> Uuid:
    return uuid_from_text(directory) if isinstance(directory, str) else directory


def _listeners(listeners: Sequence[Listener | tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    return [
        (listener.name, listener.host, listener.port)
        if isinstance(listener, Listener)
        else listener
        for listener in listeners
    ]
