"""Containment of internal errors: an exception closes only its client's connection (decision 0013).

The changes of a failed handler are undone: a partition drops appends that are not written, the
groups that the request used are reloaded from their log, the session of a Fetch ends, and delayed
work is cancelled. Only an exception within a step of the quorum ends the node, as a vote or an
acknowledgement might depend on a half-made change: see `QuorumDriver.steps`.

Periodic tasks that raise are retried later.
"""

from __future__ import annotations

from kraftlog.effects import LogLine
from kraftlog.errors import InternalError
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.part import Part
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Now


#: Minimum time between two log lines for internal errors of the same kind.
LOG_AGAIN_MS = 60_000


def contain(
    node: ServingNode, pending: PendingResponse, error: Exception, request: Any = None
) -> InternalError:
    """Undo a half-done request; raises `error` if that is not possible."""
    _raise_within_a_step(node, error)
    pending.abandon()
    assert pending.api is not None, "the API of a served request is known"
    if pending.api.key == ApiKey.PRODUCE and request is not None:
        node.replica_manager.take_back(_partitions_of(node, request))
    elif pending.api.key == ApiKey.FETCH and request is not None:
        node.fetch_sessions.drop(request.session_id)
    if node.group_coordinators is not None:
        node.group_coordinators.reload_used_shards(node.now)
    return InternalError(f"serving {pending.api.name} version {pending.version}", error)


def contain_repeated(
    node: ServingNode, partition: Partition | None, error: Exception
) -> InternalError:
    """`contain` for a request that a template served; it may have appended to `partition`."""
    _raise_within_a_step(node, error)
    if partition is not None:
        node.replica_manager.take_back((partition,))
    return InternalError("serving a request by its template", error)


def fail(node: ServingNode, pending: PendingResponse, error: Exception) -> None:
    """Close the connection of a delayed request that raised."""
    pending.connection.fail(contain(node, pending, error))


class Attempts:
    """Runs periodic tasks of the node; logs their exceptions and retries them later.

    An exception that interrupts a step of the quorum ends the node.
    """

    def __init__(self, node: ServingNode) -> None:
        self._node = node
        #: When each kind of error was last logged, and how often it has occurred since.
        self._logged: dict[tuple[str, type], tuple[int, int]] = {}

    def attempt(self, what: str, task: Callable[..., Any], *arguments: Any) -> bool:
        """Run a task; returns whether it completed."""
        before = _steps_under_way(self._node)
        try:
            task(*arguments)
        except Exception as error:
            self._failed(what, error, before)
            return False
        return True

    def poll(self, part: Part, now: Now) -> None:
        before = _steps_under_way(self._node)
        try:
            part.poll(now)
        except Exception as error:
            self._failed(part.task, error, before)
            part.postpone(now)

    def _failed(self, what: str, error: Exception, steps_before: tuple[int, int]) -> None:
        """Log the error; raise it again if it interrupted a step of the quorum."""
        if _steps_under_way(self._node) != steps_before:
            raise error
        self._log(what, error)

    def _log(self, what: str, error: Exception) -> None:
        kind, now_ms = (what, type(error)), self._node.now.monotonic_ms
        logged_ms, count = self._logged.get(kind, (now_ms - LOG_AGAIN_MS, 0))
        if now_ms - logged_ms < LOG_AGAIN_MS:
            self._logged[kind] = logged_ms, count + 1
            return
        self._logged[kind] = now_ms, 0
        more = f" ({count} more since it was last logged)" if count else ""
        self._node.emit(LogLine(f"{InternalError(what, error)}{more}"))


def _steps_under_way(node: ServingNode) -> tuple[int, int]:
    """The number of unfinished steps in the raft core and in proposing a decision."""
    return node.quorum.steps, 0 if node.active_controller is None else node.active_controller.steps


def _raise_within_a_step(node: ServingNode, error: Exception) -> None:
    """Raise `error` again if it interrupted a step of the quorum, as that cannot be undone."""
    if any(_steps_under_way(node)):
        raise error


def _partitions_of(node: ServingNode, request: Any) -> list[Partition]:
    """The local partitions that a Produce request names."""
    partitions = []
    for topic in request.topic_data:
        topic_id = node.image.topic_ids.get(topic.name, topic.topic_id)
        for part in topic.partition_data:
            partition = node.replica_manager.partitions.get((topic_id, part.index))
            if partition is not None:
                partitions.append(partition)
    return partitions
