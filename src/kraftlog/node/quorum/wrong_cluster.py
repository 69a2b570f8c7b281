"""`WrongClusterStop`: ends a node whose leader is of another cluster, and names both ids (Q31).

A leader that refuses the fetch of another cluster's node does not return its cluster id. So before
the node stops, it requests that id with DescribeCluster.
"""

from __future__ import annotations

from kraftlog import effects
from kraftlog.config.endpoints import bracketed
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.node.quorum.driver import QuorumDriver
    from kraftlog.types import Now

#: How long the node waits for the other cluster's id.
TIMEOUT_MS = 2000
#: The endpoint type of controllers in DescribeCluster.
CONTROLLERS = 2


class WrongClusterStop:
    """`stop` ends the node; the message names the first leader of another cluster."""

    def __init__(
        self,
        quorum: QuorumDriver,
        send_to: Callable[..., None],
        emit: Callable[[Any], None],
        directory: str,
        key: str,
    ) -> None:
        """`directory` has meta.properties; `key` names the controllers in the configuration."""
        self._quorum = quorum
        self._send_to = send_to
        self._emit = emit
        self._directory = directory
        self._key = key
        self._is_stopping = False

    def stop(self, leader: int, other_id: str | None) -> None:
        """The leader has sent a request with its cluster id, or (None) has refused a fetch."""
        if self._is_stopping:
            return
        self._is_stopping = True
        addresses = self._quorum.addresses
        address = addresses.last_used(leader) or addresses.of(leader)
        if address is None:
            self._stop(leader, None, None, other_id)
            return
        from kraftlog.wire.messages.describe_cluster import DescribeClusterRequest

        def on_done(response: Any, _: Now) -> None:
            if self._quorum.core.is_cluster_id_confirmed:
                self._log_recovery(leader, address)
                return
            reported_id = None if response is None else response.cluster_id or None
            self._stop(leader, address, reported_id, other_id)

        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS
        )
        self._send_to(leader, address, ApiKey.DESCRIBE_CLUSTER, request, TIMEOUT_MS, on_done)

    def _log_recovery(self, leader: int, address: tuple[str, int]) -> None:
        """Continue: this node's own quorum has confirmed the cluster id in the meantime (Q31)."""
        self._is_stopping = False
        self._emit(
            effects.LogLine(
                f"the leader {leader} at {_shown(address)} belonged to another cluster; this "
                "node has found a leader of its own cluster since, and continues"
            )
        )

    def _stop(
        self,
        leader: int,
        address: tuple[str, int] | None,
        reported_id: str | None,
        other_id: str | None,
    ) -> None:
        """`reported_id`: the cluster id that the node at `address` has returned."""
        own_id = self._quorum.core.cluster_id
        is_own = reported_id == own_id  # another node responds there now
        if other_id is None or reported_id == other_id:
            reason = self._followed_reason(leader, address, None if is_own else reported_id)
        else:
            reason = self._contacted_reason(leader, other_id, None if is_own else address)
        self._emit(
            effects.StopNode(
                f"this node belongs to cluster {own_id} ({self._directory}/meta.properties), "
                f"{reason}"
            )
        )

    def _followed_reason(
        self, leader: int, address: tuple[str, int] | None, other_id: str | None
    ) -> str:
        place = "" if address is None else f" at {_shown(address)}"
        cluster = (
            "another cluster" if other_id is None else f"cluster {effects.printable(other_id)}"
        )
        return (
            f"but the leader {leader}{place} belongs to {cluster}. Either this address is wrong: "
            f"correct {self._key}. Or {self._directory} is a directory of another cluster: set "
            f"log.dirs to this node's own, or format an empty one with the id of {cluster}"
        )

    def _contacted_reason(self, leader: int, other_id: str, address: tuple[str, int] | None) -> str:
        """`address`: where this node expects the leader, unless its own cluster responds there."""
        other_id = effects.printable(other_id)
        own_address = (
            ""
            if address is None
            else f"Or {_shown(address)}, this node's address for node {leader}, is one of that "
            f"cluster: correct {self._key}. "
        )
        return (
            f"but the leader {leader} of cluster {other_id} contacts it as one of its controllers. "
            f"Either the controllers of cluster {other_id} have a wrong address: correct it in "
            f"their configuration. {own_address}Or {self._directory} is a directory of another "
            "cluster: set log.dirs to this node's own, or format an empty one with the id "
            f"{other_id}"
        )


def _shown(address: tuple[str, int]) -> str:
    return f"{bracketed(effects.printable(address[0]))}:{address[1]}"
