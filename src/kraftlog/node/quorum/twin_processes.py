"""Notices two processes with one node id.

If both have the same directory id as well, one directory is a copy of the other, and the newer
process is refused (`TwinProcesses`). If their directory ids differ, a line is logged (`SharedIds`).

Copies would vote, fetch and update their voter record as the same replica. The evidence for them:
fetches of a replica alternate between two connections, each sent before the last has a response.
A single process that looks for the leader may have two connections, but it continues on one of
them, and several fetches in a row on one connection remove the evidence.
"""

from __future__ import annotations

from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.logstate.voters import ReplicaKey
    from kraftlog.node.pending_response import PendingResponse

#: The number of alternations that proves two processes: a single one makes fewer.
ALTERNATIONS = 5
#: Fetches in a row on one connection that remove the evidence. Two processes also make two in a
#: row: while records are written, one may fetch again before the other has its response.
IN_A_ROW = 3
#: Replicas that are remembered; each is a node that fetches metadata here.
MAX_REPLICAS = 1000


class _Fetches(Value):
    """The last fetch of a replica, its last two connections, and the evidence for two processes."""

    last: PendingResponse
    #: The connection that was used first, and the one that was first used later.
    older: object
    newer: object
    alternations: int = 0
    in_a_row: int = 1


class TwinProcesses:
    """Finds two processes of one replica, by the fetches of each replica of the quorum."""

    def __init__(self) -> None:
        self._by_replica: dict[ReplicaKey, _Fetches] = {}

    def refuses(self, replica: ReplicaKey, pending: PendingResponse) -> bool:
        """Whether a fetch comes from the newer one of two processes."""
        connection = pending.connection
        fetches = self._by_replica.get(replica)
        if fetches is None:
            if len(self._by_replica) >= MAX_REPLICAS:
                del self._by_replica[next(iter(self._by_replica))]
            self._by_replica[replica] = _Fetches(pending, connection, connection)
            return False
        former, fetches.last = fetches.last, pending
        if connection is not fetches.older and connection is not fetches.newer:
            fetches.older, fetches.newer, fetches.alternations = former.connection, connection, 0
            fetches.in_a_row = 1
        elif fetches.alternations < ALTERNATIONS:
            _count_alternation(fetches, former, connection)
        return fetches.alternations >= ALTERNATIONS and connection is fetches.newer


def _count_alternation(fetches: _Fetches, former: PendingResponse, connection: object) -> None:
    if connection is not former.connection:
        fetches.in_a_row = 1
        fetches.alternations += former.pieces is None  # the former fetch has no response yet
    else:
        fetches.in_a_row += 1
        if fetches.in_a_row >= IN_A_ROW:
            fetches.alternations = 0


#: The number of returns to an earlier directory id that proves two processes: a single one only
#: moves to new ids.
RETURNS = 2


class _Fetcher(Value):
    """The last fetch with a node id; `previous`: the last fetch with its previous directory id."""

    replica: ReplicaKey
    host: str
    previous: tuple[ReplicaKey, str] | None = None
    returns: int = 0
    is_logged: bool = False


class SharedIds:
    """The directory ids with which nodes of each id fetch metadata here.

    The first `MAX_REPLICAS` ids are watched: to forget one would log its line again.
    """

    def __init__(self, me: ReplicaKey) -> None:
        self._my_id = me.id
        # This process is one of two as soon as another directory fetches with its id.
        self._by_id = {me.id: _Fetcher(me, "", returns=RETURNS - 1)}

    def warning(self, replica: ReplicaKey, host: str) -> str | None:
        """Note a fetch; return the line for the operator once, if two processes have this id."""
        if replica.id < 0:
            return None
        fetcher = self._by_id.get(replica.id)
        if fetcher is None:
            if len(self._by_id) < MAX_REPLICAS:
                self._by_id[replica.id] = _Fetcher(replica, host)
            return None
        if replica.directory_id == fetcher.replica.directory_id:
            return None
        is_return = fetcher.previous is not None and fetcher.previous[0] == replica
        fetcher.returns = fetcher.returns + 1 if is_return or replica.id == self._my_id else 0
        fetcher.previous = fetcher.replica, fetcher.host
        fetcher.replica, fetcher.host = replica, host
        if fetcher.is_logged or fetcher.returns < RETURNS:
            return None
        fetcher.is_logged = True
        return _shared_line(fetcher)


def _shared_line(fetcher: _Fetcher) -> str:
    assert fetcher.previous is not None, "there was a change"
    both = [_process(*fetcher.previous), _process(fetcher.replica, fetcher.host)]
    number = fetcher.replica.id
    return (
        f"two nodes run with node.id={number}, {both[0]} and {both[1]}, and both fetch the "
        "metadata here. Stop the one that should not have this id, and give it a node.id of its "
        f"own and an empty directory. Do not replace voter {number} before that"
    )


def _process(replica: ReplicaKey, host: str) -> str:
    where = f" on host {host}" if host else ""
    return f"one with the directory id {uuid_text(replica.directory_id)}{where}"


def twin_line(me: ReplicaKey) -> str:
    """Why a refused process stops."""
    return (
        f"another process is running as node {me.id} with the directory id "
        f"{uuid_text(me.directory_id)}: the log directory of this one is a copy of its directory. "
        "Start this node with an empty directory and an id of its own, and keep only one of the "
        "two running"
    )
