"""Control records: the key, and the values by type."""

from __future__ import annotations

from kraftlog.types import NULL_UUID
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, int16, int32, int64, string, struct, uint16, uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.types import Uuid


class Voter(Message):
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid(since=1, default=NULL_UUID)


class LeaderChangeMessage(Message, versions=(0, 1), flexible=0):
    version: int = int16()
    leader_id: int = int32()
    voters: Sequence[Voter] = array(Voter)
    granting_voters: Sequence[Voter] = array(Voter)


class SnapshotHeaderRecord(Message, versions=(0, 0), flexible=0):
    version: int = int16()
    last_contained_log_timestamp: int = int64()


class SnapshotFooterRecord(Message, versions=(0, 0), flexible=0):
    version: int = int16()


class KRaftVersionRecord(Message, versions=(0, 0), flexible=0):
    version: int = int16()
    k_raft_version: int = int16()


class Endpoint(Message):
    name: str = string()
    host: str = string()
    port: int = uint16()


class KRaftVersionFeature(Message):
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class VotersRecordVoter(Message):
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()
    endpoints: Sequence[Endpoint] = array(Endpoint)
    k_raft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature)


class RemovedVoter(Message):
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()


class VotersRecord(Message, versions=(0, 0), flexible=0):
    version: int = int16()
    voters: Sequence[VotersRecordVoter] = array(VotersRecordVoter)
    # Our own: the target voters of a reassignment, the cluster id, and voters that were removed.
    target_voters: Sequence[int] | None = array("int32", nullable=True, tag=10000, default=None)
    cluster_id: str | None = string(nullable=True, tag=10001, default=None)
    removed_voters: Sequence[RemovedVoter] = array(RemovedVoter, tag=10002, default=())


class ControlRecordTypeSchema(Message, versions=(0, 0)):
    type: int = int16()


class EndTxnMarker(Message, versions=(0, 0)):
    coordinator_epoch: int = int32()
