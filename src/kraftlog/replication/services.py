"""The interfaces between the node and the replica manager."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from kraftlog.replication.fetcher import FetchConfig
    from kraftlog.replication.partition import Partition

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
