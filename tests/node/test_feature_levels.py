"""Feature levels that this version does not support end the node, with what to do.

Without the end, the node would look as if it ran: its broker would be refused for ever, or its
controller would write records that the others cannot read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog.errors import UnreplayableError
from kraftlog.metadata.unsupported_levels import broker_obstacle
from kraftlog.runner.quorum_io import NodeStoppedError
from kraftlog.storage.disk import write_atomically
from kraftlog.storage.format import DirectoryFormat, first_snapshot
from kraftlog.wire.messages.metadata_records import FeatureLevelRecord
from tests.node.frame_client import make_host
from tests.node.proposals import proposal_of
from tests.node.test_unreplayable import SNAPSHOT_ALWAYS
from tests.virtual_host import VirtualHost

if TYPE_CHECKING:
    from kraftlog.wire.schema import Message
    from kraftlog_simulator.files import MemoryFiles

METADATA = "metadata.version"


def disk_with_levels(**levels: int) -> MemoryFiles:
    """A freshly formatted disk with these feature levels."""
    host = VirtualHost()
    files = host.files
    files.kill()
    fresh = type(files)()
    formatting = DirectoryFormat(
        cluster_id=None,
        node_id=1,
        features={name.replace("_", "."): level for name, level in levels.items()},
        metadata_directory="data",
        voters=None,
        listener="CONTROLLER",
    )
    folder = "data/__cluster_metadata-0"
    fresh.make_folder("data")
    fresh.make_folder(folder)
    write_atomically(fresh, f"{folder}/{0:020d}-{0:010d}.checkpoint", first_snapshot(formatting, 0))
    return fresh


def propose(host: VirtualHost, *records: Message) -> None:
    assert not host.node.quorum.propose(proposal_of(records), lambda _, __: None, host.now)
    host.turn()


def test_formatted_levels_are_appended_without_unsupported_features() -> None:
    """KIP-1170: they are in the snapshot at offset 0, which is no part of the metadata log."""
    files = disk_with_levels(metadata_version=32, share_version=2, streams_version=1)
    host = VirtualHost(files)
    host.settle()
    assert host.node.image.features == {METADATA: 32}
    assert host.node.quorum.core.log.snapshot is None
    assert host.node.quorum.end >= 3
    files.kill()
    assert VirtualHost(files).node.image.features == {METADATA: 32}


@pytest.mark.parametrize(
    ("level", "name", "advice"),
    [
        (29, r"4\.2-IV1 \(29\)", "upgrade --feature metadata.version=30"),
        (34, "34", "Start a version"),
    ],
)
def test_a_controller_formatted_for_another_release_ends(
    level: int, name: str, advice: str
) -> None:
    files = disk_with_levels(metadata_version=level)
    with pytest.raises(NodeStoppedError, match=f"metadata.version is {name}.*4.4-IV2.*{advice}"):
        VirtualHost(files).settle()


def test_a_newer_metadata_version_ends_every_start() -> None:
    host = make_host(demo=1)
    offset = host.node.quorum.end
    with pytest.raises(UnreplayableError):
        propose(host, FeatureLevelRecord(name=METADATA, feature_level=34))
    for _ in range(2):
        host.files.kill()
        with pytest.raises(UnreplayableError) as stopped:
            VirtualHost(host.files)
        assert f"at offset {offset}, metadata.version is 34" in str(stopped.value)
        assert "4.3-IV0 (30) to 4.4-IV2 (33)" in str(stopped.value)
        assert "kafka-features downgrade" in str(stopped.value)


def test_a_newer_metadata_version_in_a_snapshot_ends_every_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = VirtualHost(settings=SNAPSHOT_ALWAYS)
    with monkeypatch.context() as patch:
        patch.setattr("kraftlog.node.feature_levels.METADATA_LEVELS", (30, 34))
        propose(host, FeatureLevelRecord(name=METADATA, feature_level=34))
        host.pass_time(10)
        host.settle()
    assert host.node.quorum.core.log.snapshot is not None
    host.files.kill()
    with pytest.raises(
        UnreplayableError, match=r"in the snapshot at offset .* metadata.version is 34"
    ):
        VirtualHost(host.files)


def test_a_cluster_that_was_upgraded_is_replayed_from_its_first_level() -> None:
    host = make_host(demo=1)
    propose(host, FeatureLevelRecord(name=METADATA, feature_level=29))
    propose(host, FeatureLevelRecord(name=METADATA, feature_level=31))
    host.files.kill()
    assert VirtualHost(host.files).node.image.features[METADATA] == 31


def test_the_obstacle_of_a_broker_names_each_level_and_how_to_lower_it() -> None:
    supported = {METADATA: 33, "eligible.leader.replicas.version": 1}
    assert broker_obstacle({}) == broker_obstacle(supported) == ""
    text = broker_obstacle({**supported, "share.version": 2, "streams.version": 1})
    assert "the cluster has share.version=2, streams.version=1, which brokers of this" in text
    assert text.endswith("downgrade --feature share.version=0 --feature streams.version=0")
    assert "metadata.version is 4.0-IV3 (25)" in broker_obstacle({METADATA: 25})
