"""The `log_dirs` of a reassignment: moves of replicas between log directories of a broker."""

from __future__ import annotations

from kraftlog.cli.throttles import LOG_DIR_MOVE_RATE
from kraftlog.client.deadline import Deadline
from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kraftlog.client.client import Client
    from kraftlog.client.directory_moves import ReplicaName
    from kraftlog.errors import RefusedError

#: How often to retry a move whose replica does not exist yet.
POLL_S = 0.1
COMPLETED, ONGOING = "completed", "still in progress"


def replica_text(name: ReplicaName) -> str:
    """A replica as topic-partition-broker."""
    return f"{name[0]}-{name[1]}-{name[2]}"


def begin(
    client: Client, targets: Mapping[ReplicaName, str], timeout_s: float
) -> dict[ReplicaName, RefusedError]:
    """Begin each move once its replica exists; return the errors of moves that did not begin."""
    deadline = Deadline(timeout_s)
    waiting = dict(targets)
    refused: dict[ReplicaName, RefusedError] = {}
    while waiting:
        failed = client.move_replicas(waiting)
        missing = {
            name: error
            for name, error in failed.items()
            if error.code == ErrorCode.REPLICA_NOT_AVAILABLE
        }
        refused.update({name: error for name, error in failed.items() if name not in missing})
        if deadline.is_over:
            return {**refused, **missing}
        waiting = {name: targets[name] for name in missing}
        if waiting:
            deadline.pause(POLL_S)
    return refused


def states(client: Client, targets: Mapping[ReplicaName, str]) -> dict[ReplicaName, str]:
    """The state of each move as text, such as "completed"."""
    current: dict[ReplicaName, str] = {}
    future: dict[ReplicaName, str] = {}
    for broker, directories in client.log_dirs(sorted({name[2] for name in targets})).items():
        for directory in directories:
            for topic in directory.topics:
                for partition in topic.partitions:
                    directory_of = future if partition.is_future_key else current
                    directory_of[topic.name, partition.partition_index, broker] = directory.log_dir
    return {
        name: _state(current.get(name), future.get(name), path) for name, path in targets.items()
    }


def _state(current: str | None, future: str | None, target: str) -> str:
    if current is None:
        return "not possible: the replica is in no online directory of its broker"
    if future == target:
        return ONGOING
    if future is not None:
        return f"replaced: the replica moves to {future}"
    return COMPLETED if current == target else f"not in progress: the replica is in {current}"


def throttle(client: Client, brokers: Iterable[int], rate: int) -> None:
    """Limit copies between directories of these brokers to `rate` bytes per second each."""
    for broker in sorted(set(brokers)):
        client.alter_configs("brokers", str(broker), {LOG_DIR_MOVE_RATE: rate})
