"""`WrongClusterStop`: ends a node whose leader is of another cluster, and names both ids (Q31).

A leader refuses the fetch of another cluster's node without its own cluster id, so the node asks it
for that before it stops.
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

#: How long it waits for the other cluster's id.
TIMEOUT_MS = 2000
#: The endpoint type of controllers in DescribeCluster.
CONTROLLERS = 2


class WrongClusterStop:
    """`stop` ends the node; the first leader of another cluster is the one that is named."""

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

    def stop(self, leader: int, theirs: str | None) -> None:
        """The leader has contacted this node with its cluster id, or has refused its fetch."""
        if self._is_stopping:
            return
        self._is_stopping = True
        addresses = self._quorum.addresses
        where = addresses.last_used(leader) or addresses.of(leader)
        if where is None:
            self._stop(leader, None, None, theirs)
            return
        from kraftlog.wire.messages.describe_cluster import DescribeClusterRequest

        def on_done(response: Any, _: Now) -> None:
            if self._quorum.core.is_confirmed:
                self._go_on(leader, where)
                return
            found = None if response is None else response.cluster_id or None
            self._stop(leader, where, found, theirs)

        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS
        )
        self._send_to(leader, where, ApiKey.DESCRIBE_CLUSTER, request, TIMEOUT_MS, on_done)

    def _go_on(self, leader: int, where: tuple[str, int]) -> None:
        """Meanwhile this node's own quorum has confirmed its cluster id (Q31)."""
        self._is_stopping = False
        host = bracketed(effects.printable(where[0]))
        self._emit(
            effects.LogLine(
                f"the leader {leader} at {host}:{where[1]} belonged to another cluster; this node "
                "has found a leader of its own cluster since, and goes on"
            )
        )

    def _stop(
        self, leader: int, where: tuple[str, int] | None, found: str | None, theirs: str | None
    ) -> None:
        """`found`: the cluster id at the address `where` this node has for the leader."""
        mine = self._quorum.core.cluster_id
        if found == mine:  # another node responds there now
            found = None
        if theirs is None or found == theirs:
            but = self._followed(leader, where, found)
        else:
            but = self._contacted(leader, theirs)
        self._emit(
            effects.Stop(
                f"this node belongs to cluster {mine} ({self._directory}/meta.properties), {but}"
            )
        )

    def _followed(self, leader: int, where: tuple[str, int] | None, theirs: str | None) -> str:
        at = "" if where is None else f" at {bracketed(effects.printable(where[0]))}:{where[1]}"
        cluster = "another cluster" if theirs is None else f"cluster {effects.printable(theirs)}"
        return (
            f"but the leader {leader}{at} belongs to {cluster}. Either this address is wrong: "
            f"correct {self._key}. Or {self._directory} is a directory of another cluster: set "
            f"log.dirs to this node's own, or format an empty one with the id of {cluster}"
        )

    def _contacted(self, leader: int, theirs: str) -> str:
        theirs = effects.printable(theirs)
        return (
            f"but the leader {leader} of cluster {theirs} contacts it as one of its controllers. "
            f"Either the controllers of cluster {theirs} have a wrong address: correct it in "
            f"their configuration. Or {self._directory} is a directory of another cluster: set "
            f"log.dirs to this node's own, or format an empty one with the id {theirs}"
        )
