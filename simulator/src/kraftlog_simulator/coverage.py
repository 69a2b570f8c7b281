"""Coverage: the rare situations that random runs must reach; runs without them prove little."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster.faults import CLUSTER_KINDS, INDEPENDENT_KINDS, OPERATOR_KINDS
from kraftlog_simulator.faults.fault_kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Collection

#: What runs of the scenario `mixture` (random faults) must reach.
MIXTURE_SITUATIONS = (
    "corrupt response",
    "a running process seemed gone",
    "response after the request timeout",
    "append of unknown outcome",
    "change made: add_voter",
    "change made: reassign",
    "change made: remove_voter",
    "change made: update_voter",
    "cluster id learned",
    "connection reset",
    "crash between two actions",
    "crash while installing a snapshot",
    "damaged election state given up",
    "damaged log given up",
    "disk full",
    "disk went back to an old copy",
    "disk wiped",
    "download abandoned",
    "download resumed",
    "leader change during a voter change",
    "leader change",
    "leader of another cluster refused",
    "leader removed itself",
    "leader resigned",
    "log diverges",
    "log replaced by its snapshot at a start",
    "message duplicated",
    "message lost",
    "messages as bytes",
    "observer promoted",
    "pre-vote refused",
    "read proved by a majority",
    "read refused",
    "snapshot installed",
    "snapshot taken",
    "foreign request refused",
    "sync failed",
    "truncation",
    "unfinished download removed",
    "unsynced batches lost",
    "vote request of a non-voter considered",
    "vote request of a non-voter refused for a live leader",
    "vote refused",
    "voter became an observer",
    "voter change of unknown outcome",
    "voter change rolled back by truncation",
    "write failed",
    "writes lost that were reported as done",
    "zombie leader resigned",
    *[f"fault: {kind}" for kind in KINDS],
)
#: What all scenarios of the quorum together must reach.
ALL_SITUATIONS = (
    *MIXTURE_SITUATIONS,
    "read at any replica",
    "read given up",
)
#: What runs of a cluster must reach.
CLUSTER_SITUATIONS = (
    "response after the request timeout",
    "a running process seemed gone",
    "clean shutdown",
    "connection reset",
    "crash between two actions",
    "disk full",
    "late AlterPartition",
    "late BrokerHeartbeat",
    "late BrokerRegistration",
    "late Fetch",
    "leader change",
    "logs of a partition compared",
    "message lost",
    "node stopped by its disk",
    "OffsetCommit served",
    "coordinator moved",
    "consumer of a removed partition",
    "consumer of deleted records",
    "DeleteRecords served",
    "fetch session error 70",
    "incremental fetch",
    "OffsetFetch served",
    "partition added",
    "partition moved",
    "partition truncated",
    "partitions removed",
    "replicas lost unsynced data",
    "sync failed",
    "topic recreated",
    "zombie leader resigned",
    "broker wiped",
    "controller wiped",
    "combined node wiped",
    "replica lost its log",
    "last ISR member lost its log",
    "replica caught up after it lost its log",
    "records without a keeper lost",
    "disk replaced with its id",
    "unclean election requested",
    "min.insync.replicas changed",
    "minimum and ISR changed in one replay",
    "move between directories served",
    "log directory failed",
    "wall clock stepped",
    "eligible.leader.replicas.version lowered",
    "kraft.version raised",
    "snapshot installed",
    *[f"fault: {kind}" for kind in (*CLUSTER_KINDS, *INDEPENDENT_KINDS, *OPERATOR_KINDS)],
)

#: With access control; what is rare without it counts there.
ACCESS_SITUATIONS = (
    "ACL granted",
    "ACL revoked",
    "stranger denied",
    "topic of a stranger served",
    f"topic of a stranger error {ErrorCode.TOPIC_AUTHORIZATION_FAILED}",
    "stranger without an ACL anywhere",
)


def missing(seen: Collection[str], scenario: str = "any") -> list[str]:
    """The situations that runs of a scenario must reach and have not reached.

    "any" stands for all scenarios of the quorum.
    """
    wanted = {
        "any": ALL_SITUATIONS,
        "mixture": MIXTURE_SITUATIONS,
        "cluster": CLUSTER_SITUATIONS,
        "access": ACCESS_SITUATIONS,
    }.get(scenario, ())
    return [situation for situation in wanted if situation not in seen]
