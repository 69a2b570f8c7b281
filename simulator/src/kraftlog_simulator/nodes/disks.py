"""Damages the files of a stopped node: an old copy, a lost tail, missing snapshots."""

from __future__ import annotations

from kraftlog.raft.messages import ElectionState
from kraftlog.storage import quorum_state
from kraftlog.storage.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from kraftlog.storage.metadata_snapshots import parse_name
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from kraftlog_simulator.files import MemoryFiles
    from kraftlog_simulator.nodes.log_view import LogView

DIRECTORY = "data"
FOLDER = "data/__cluster_metadata-0"


def restore_old_copy(
    files: MemoryFiles, view: LogView, kept: int, election: ElectionState | None
) -> None:
    """Turn the files into an old copy, with only the first `kept` batches of the log."""
    end = view.batches[kept - 1].last_offset + 1
    for name in files.names(FOLDER):
        path = f"{FOLDER}/{name}"
        snapshot_end = parse_name(name)
        if snapshot_end is not None and snapshot_end.offset <= end:
            continue
        if name.endswith(".log"):
            base = int(name.removesuffix(".log"))
            if base < end:
                batch_ends = [position for segment, position in view.ends[:kept] if segment == base]
                size = max(batch_ends, default=0)
                files.make_file(path, files.bytes_of(path)[:size])
                continue
        if name != quorum_state.NAME:
            files.unlink(path)
    for name in (HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS):
        if files.exists(f"{DIRECTORY}/{name}"):
            files.unlink(f"{DIRECTORY}/{name}")
    state = election or ElectionState(view.batches[kept - 1].epoch)
    stored = quorum_state.QuorumStateData(state.leader_id, state.epoch, state.voted)
    files.make_file(f"{FOLDER}/{quorum_state.NAME}", quorum_state.encode(stored))
    files.write_back()


def lose_snapshots(files: MemoryFiles) -> None:
    """Delete the snapshots, as an operator may who mistakes them for obsolete files."""
    for name in files.names(FOLDER):
        if parse_name(name) is not None:
            files.unlink(f"{FOLDER}/{name}")
    files.write_back()
