"""The interfaces between the node and the replica manager."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from kraftlog.config.layers import ConfigLayers
    from kraftlog.ports.logs import LogReader
    from kraftlog.replication.fetcher import FetchConfig
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Now

    class PartitionListener(Protocol):
        """Called for every partition on this broker, as Kafka's PartitionListener.

        The node's group coordinators, a layer above.
        """

        def became_leader(self, partition: Partition) -> None:
            """This broker leads and the log is open. Called again when the epoch changes."""
            ...

        def resigned(self, partition: Partition) -> None:
            """This broker no longer leads or hosts the partition."""
            ...

        def log_failed(self, partition: Partition) -> None:
            """The log has failed and is not writable."""
            ...


class ReplicationConfig(Value):
    """The settings of replication; `listener` is the inter-broker listener."""

    listener: str
    max_lag_ms: Callable[[], int]
    max_lag_bytes: int
    fetch: FetchConfig
    #: Whether consumers are sent to a follower in their rack (KIP-392).
    selects_by_rack: bool = False
    quota_windows: int = 11
    quota_window_ms: int = 1000


class ReplicationServices(Value):
    """The services of the node that the replica manager uses.

    `schedule(operation, timeout_ms)` calls `operation.expire` at the timeout;
    `fail(pending, error)` fails a pending response after an internal error;
    `send_to_controller` is `ControllerChannel.send`;
    `send_fetch(effect)` is `emit` for follower fetches, which change no deadline;
    `poll_by(due_ms)` makes the node poll the replica manager at that time at the latest.
    """

    logs: LogReader
    emit: Callable[[Any], None]
    send_fetch: Callable[[Any], None]
    poll_by: Callable[[int], None]
    schedule: Callable[[Any, int], None]
    fail: Callable[[Any, Exception], None]
    clock: Callable[[], Now]
    broker_epoch: Callable[[], int]
    send_to_controller: Callable[..., None]
    #: Whether the image has this process under the broker's id.
    is_registered: Callable[[], bool]
    #: The settings of this broker and of all brokers.
    config_layers: Callable[[], ConfigLayers]
