"""The quorum's control records as bytes: voter sets, and a snapshot's first and last batch.

The first batch has the header, `kraft.version` unless it is 0, and the recorded voters.
"""

from __future__ import annotations

from kraftlog.logstate.voters import Endpoint, ReplicaKey, Voter, VoterSet
from kraftlog.records.control import build_control_batch
from kraftlog.types import ControlType
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.codec import decode, encode
from kraftlog.wire.messages import control_records as control
from kraftlog.wire.record_frames import encode_control

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message

VOTERS_VERSION = 0


def snapshot_beginning(
    voters: VoterSet, epoch: int, written_ms: int, *, contained_ms: int, is_dynamic: bool = False
) -> tuple[bytes, int]:
    """The first batch of a snapshot, and the offset after it.

    `contained_ms` is the timestamp of the last record that the snapshot covers. Voters that come
    from the configuration and not from a record are left out (R1). `is_dynamic`: kraft.version is
    1, although the node has no voters yet.
    """
    header = control.SnapshotHeaderRecord(version=0, last_contained_log_timestamp=contained_ms)
    records = [_record(ControlType.SNAPSHOT_HEADER, header)]
    if voters.is_recorded:
        if voters.kraft_version:
            records.append((ControlType.KRAFT_VERSION, kraft_version_record(voters.kraft_version)))
        records.append((ControlType.KRAFT_VOTERS, voters_record(voters)))
    elif is_dynamic:
        records.append((ControlType.KRAFT_VERSION, kraft_version_record(1)))
    return _batch(records, 0, epoch, written_ms), len(records)


def snapshot_end(offset: int, epoch: int, written_ms: int) -> bytes:
    """The last batch, at this offset."""
    footer = _record(ControlType.SNAPSHOT_FOOTER, control.SnapshotFooterRecord(version=0))
    return _batch([footer], offset, epoch, written_ms)


def _record(kind: int, message: Message) -> tuple[int, bytes]:
    return kind, encode_control(kind, message)[1]


def _batch(records: list[tuple[int, bytes]], offset: int, epoch: int, written_ms: int) -> bytes:
    return build_control_batch(
        records, base_offset=offset, leader_epoch=epoch, timestamp_ms=written_ms
    )


def kraft_version_record(level: int) -> bytes:
    record = control.KRaftVersionRecord(version=0, k_raft_version=level)
    return _record(ControlType.KRAFT_VERSION, record)[1]


def voters_record(voters: VoterSet) -> bytes:
    """Kafka's VotersRecord; targets, cluster id and removed voters are our tagged fields (R1)."""
    record = control.VotersRecord(
        version=VOTERS_VERSION,
        voters=[_voter(voter) for voter in voters.voters],
        target_voters=voters.targets,
        cluster_id=voters.cluster_id,
        # A tuple like the default: only an empty tuple equals it, and is then not written.
        removed_voters=tuple(
            [
                control.RemovedVoter(voter_id=key.id, voter_directory_id=key.directory_id)
                for key in voters.removed
            ]
        ),
    )
    return encode(record, VOTERS_VERSION)


def _voter(voter: Voter) -> control.VotersRecordVoter:
    return control.VotersRecordVoter(
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        endpoints=[
            control.Endpoint(name=e.name, host=e.host, port=e.port) for e in voter.endpoints
        ],
        k_raft_version_feature=control.KRaftVersionFeature(
            min_supported_version=voter.min_version, max_supported_version=voter.max_version
        ),
    )


def voters_from_record(value: bytes) -> VoterSet:
    record = decode(control.VotersRecord, VOTERS_VERSION, value)
    voters = [
        Voter(
            ReplicaKey(voter.voter_id, voter.voter_directory_id),
            tuple([Endpoint(e.name, e.host, e.port) for e in voter.endpoints]),
            voter.k_raft_version_feature.min_supported_version,
            voter.k_raft_version_feature.max_supported_version,
        )
        for voter in record.voters
    ]
    targets = None if record.target_voters is None else tuple(record.target_voters)
    removed = [ReplicaKey(v.voter_id, v.voter_directory_id) for v in record.removed_voters]
    return VoterSet(tuple(voters), targets, record.cluster_id, tuple(removed))
