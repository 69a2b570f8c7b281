"""Formats a directory for a new node, like Kafka's `kafka-storage format`.

A snapshot that ends at offset 0 of the metadata log has the metadata records that the first active
controller appends (KIP-1170), and the first voters of a quorum with dynamic voters. Kafka's tool
wrote these records to `bootstrap.checkpoint` before Kafka 4.4. `meta.properties` is written last: a
directory without it is not formatted.
"""

from __future__ import annotations

from kraftlog.errors import StorageError
from kraftlog.logstate import voters as voter_state
from kraftlog.logstate.quorum_records import snapshot_beginning, snapshot_end
from kraftlog.records.builder import BatchBuilder
from kraftlog.storage.disk import write_atomically
from kraftlog.storage.machine_restarts import BOOT_ID, write_boot_id
from kraftlog.storage.meta_properties import NAME, MetaProperties, encode, load
from kraftlog.types import METADATA_TOPIC
from kraftlog.value import TYPE_CHECKING, Value
from kraftlog.wire.messages.metadata_records import FeatureLevelRecord
from kraftlog.wire.record_frames import encode_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kraftlog.config.endpoints import QuorumVoter
    from kraftlog.ports.files import Files
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.metadata_records import UserScramCredentialRecord

BOOTSTRAP = "bootstrap.checkpoint"
METADATA_FOLDER = f"{METADATA_TOPIC}-0"
FIRST_SNAPSHOT = f"{0:020d}-{0:010d}.checkpoint"
_FIRST_FEATURE = "metadata.version"


class DirectoryFormat(Value):
    """The initial content of every directory of a node."""

    #: None if the first leader is to generate it
    cluster_id: str | None
    node_id: int
    #: feature -> level
    features: Mapping[str, int]
    metadata_directory: str
    #: the first voters; None for static voters, or for a node that joins a quorum
    voters: Sequence[QuorumVoter] | None
    #: the listener through which voters are reached
    listener: str
    #: whether the voters are in the metadata log, not in the properties
    is_dynamic: bool = False
    #: SCRAM credentials of the new cluster
    scram: tuple[UserScramCredentialRecord, ...] = ()


def is_formatted(files: Files, directory: str) -> bool:
    return files.exists(f"{directory}/{NAME}")


def foreign_names(files: Files, directory: str) -> list[str]:
    """The names in a directory, or none without it, that a format which a crash ended cannot leave.

    A metadata log is one: without meta.properties it is not known whose it is.
    """
    if not files.exists(directory):
        return []
    own = {"lost+found", f"{NAME}.tmp"}
    for name in (BOOTSTRAP, BOOT_ID):
        own |= {name, f"{name}.tmp"}
    folder = f"{directory}/{METADATA_FOLDER}"
    if files.exists(folder) and {*files.list(folder)} <= {FIRST_SNAPSHOT, f"{FIRST_SNAPSHOT}.tmp"}:
        own.add(METADATA_FOLDER)
    return sorted([name for name in files.list(directory) if name not in own])


def check_formatted(files: Files, directory: str, formatting: DirectoryFormat) -> None:
    """Refuse a directory that is formatted for another node or cluster."""
    meta = load(files, directory)
    if (meta.cluster_id, meta.node_id) != (formatting.cluster_id, formatting.node_id):
        raise StorageError(
            f"{directory}/{NAME} says cluster.id={meta.cluster_id or '(none)'} and "
            f"node.id={meta.node_id}; "
            f"expected {formatting.cluster_id} and {formatting.node_id}"
        )


def format_directory(
    files: Files, directory: str, directory_id: Uuid, formatting: DirectoryFormat, now_ms: int
) -> None:
    """Write the initial content of a directory."""
    _make_folders(files, directory)
    write_boot_id(files, directory)
    if directory == formatting.metadata_directory:
        folder = f"{directory}/{METADATA_FOLDER}"
        _make_folders(files, folder)
        write_atomically(files, f"{folder}/{FIRST_SNAPSHOT}", first_snapshot(formatting, now_ms))
    meta = MetaProperties(formatting.cluster_id, formatting.node_id, directory_id)
    write_atomically(files, f"{directory}/{NAME}", encode(meta))


def _make_folders(files: Files, path: str) -> None:
    """Create a folder and the missing ones above it, and make their names durable.

    A folder that exists may be left by a format that was killed before it had synced the name, so
    the names above it are synced, too. Where this process may not, it has not created any.
    """
    parent, _, _ = path.rstrip("/").rpartition("/")
    if parent:
        _make_folders(files, parent)
    existed = files.exists(path)
    if not existed:
        files.make_folder(path)
    try:
        files.sync_folder(parent or ("/" if path.startswith("/") else "."))
    except PermissionError:
        if not existed:
            raise


def first_snapshot(formatting: DirectoryFormat, now_ms: int) -> bytes:
    """Encode the snapshot that ends at offset 0 of the metadata log.

    It has the feature levels above 0, metadata.version first, as the others depend on it, and the
    SCRAM credentials.
    """
    voters = [_with_endpoint(voter, formatting.listener) for voter in formatting.voters or ()]
    beginning, next_offset = snapshot_beginning(
        voter_state.VoterSet(tuple(voters)),
        0,
        now_ms,
        contained_ms=now_ms,
        is_dynamic=formatting.is_dynamic,
    )
    features = formatting.features
    builder = BatchBuilder(base_offset=next_offset, leader_epoch=0)
    for name in sorted(features, key=lambda name: (name != _FIRST_FEATURE, name)):
        if features[name]:
            record = FeatureLevelRecord(name=name, feature_level=features[name])
            builder.append(now_ms, None, encode_metadata(record, 0))
    for credential in formatting.scram:
        builder.append(now_ms, None, encode_metadata(credential, 0))
    return beginning + builder.build() + snapshot_end(builder.next_offset, 0, now_ms)


def _with_endpoint(voter: QuorumVoter, listener: str) -> voter_state.Voter:
    assert voter.directory_id is not None
    key = voter_state.ReplicaKey(voter.id, voter.directory_id)
    return voter_state.Voter(key, (voter_state.Endpoint(listener, voter.host, voter.port),))
