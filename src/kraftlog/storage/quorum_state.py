"""`quorum-state`: the durable election state of a quorum replica (Q4), in Kafka's JSON.

Version 0 is written while kraft.version is 0, and version 1 afterwards. The fields that version 1
lacks (cluster id, applied offset, committed voters) are under the key `kraftlog`, which Kafka's
reader ignores; people and `kraftlog quorum repair` read them. They are written only when the
election state changes, so they may lag behind the log, which is authoritative. The directory id of
the vote is in version 1 always, in version 0 only if it is known; Kafka reads it in both.
"""

from __future__ import annotations

from kraftlog.errors import CorruptLogError
from kraftlog.logstate.voters import ReplicaKey
from kraftlog.storage.disk import read_whole, write_atomically
from kraftlog.types import NULL_UUID, uuid_from_text, uuid_text
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.ports.files import Files

NAME = "quorum-state"
NO_NODE = -1
#: The key under which version 1 has the fields that Kafka's format lacks.
KRAFTLOG_KEY = "kraftlog"
#: The two versions of the format.
STATIC_VOTERS, DYNAMIC_VOTERS = 0, 1


class QuorumStateData(Value):
    """The file's content. A starting node uses only the leader, the epoch and the vote."""

    leader_id: int = NO_NODE
    epoch: int = 0
    voted: ReplicaKey | None = None
    version: int = DYNAMIC_VOTERS
    cluster_id: str | None = None
    applied_offset: int = 0
    voter_ids: tuple[int, ...] = ()


def store(files: Files, directory: str, election: QuorumStateData) -> None:
    """Write the file durably: a crash at any instant leaves the old or the new one, whole."""
    write_atomically(files, f"{directory}/{NAME}", encode(election))


def load(files: Files, directory: str) -> QuorumStateData | None:
    """Read the file; None if it was never written."""
    path = f"{directory}/{NAME}"
    return decode(read_whole(files, path), path) if files.exists(path) else None


def encode(election: QuorumStateData) -> bytes:
    import json

    voted = election.voted
    content: dict[str, Any] = {
        "leaderId": election.leader_id,
        "leaderEpoch": election.epoch,
        "votedId": NO_NODE if voted is None else voted.id,
        "data_version": election.version,
    }
    informational = {
        "clusterId": election.cluster_id or "",
        "appliedOffset": election.applied_offset,
        "currentVoters": [{"voterId": voter_id} for voter_id in election.voter_ids],
    }
    directory_id = voted.directory_id if voted else NULL_UUID
    if election.version == DYNAMIC_VOTERS or directory_id != NULL_UUID:
        content["votedDirectoryId"] = uuid_text(directory_id)
    content |= informational if election.version == STATIC_VOTERS else {KRAFTLOG_KEY: informational}
    return json.dumps(content, separators=(",", ":")).encode()


def decode(raw: bytes, path: str) -> QuorumStateData:
    """Decode the file, or raise: a replica that cannot read it must not start."""
    import json

    try:
        content = json.loads(raw)
        version = _number(content, "data_version", 0, DYNAMIC_VOTERS)
        voted = None
        voted_id = _number(content, "votedId", NO_NODE)
        if voted_id != NO_NODE:
            directory_id = content.get("votedDirectoryId")
            voted = ReplicaKey(
                voted_id, uuid_from_text(directory_id) if directory_id else NULL_UUID
            )
        informational = content if version == STATIC_VOTERS else content.get(KRAFTLOG_KEY) or {}
        voters = informational.get("currentVoters") or ()
        return QuorumStateData(
            leader_id=_number(content, "leaderId", NO_NODE),
            epoch=_number(content, "leaderEpoch", NO_NODE),
            voted=voted,
            version=version,
            cluster_id=informational.get("clusterId") or None,
            applied_offset=_number({"appliedOffset": 0, **informational}, "appliedOffset", 0),
            voter_ids=tuple([_number(voter, "voterId", 0) for voter in voters]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptLogError(
            f"{path} can't be read ({error}). It holds the vote of this node, and a node that "
            "forgets its vote could vote twice. Restore the file, or empty the directory, format "
            "it and let the node join as a new voter"
        ) from error


def _number(content: dict[str, Any], name: str, lowest: int, highest: int = 2**63 - 1) -> int:
    value = content[name]
    if not isinstance(value, int) or not lowest <= value <= highest:
        shown = "null" if value is None else value
        raise ValueError(f"{name} is {shown}")
    return value
