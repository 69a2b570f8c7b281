"""A cluster formatted without a cluster id: the id is generated, recorded and stored (Q29, R11)."""

from __future__ import annotations

import pytest

from kraftlog.storage import meta_properties
from kraftlog.storage.disk import write_whole
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.metadata import MetadataRequest
from kraftlog_simulator.files import MemoryFiles
from tests.node.frame_client import FrameClient
from tests.virtual_host import VirtualHost

FRESH = "freshfreshfreshfreshfr"


def disk_with_cluster_id(cluster_id: str | None = None) -> MemoryFiles:
    """A formatted directory with this cluster id."""
    files = MemoryFiles()
    files.make_folder("data")
    properties = meta_properties.MetaProperties(cluster_id, 1, b"\x01" * 16)
    write_whole(files, f"data/{meta_properties.NAME}", meta_properties.encode(properties))
    files.sync_folder(".")
    files.sync_all("data")
    return files


def test_q29_the_first_leader_generates_the_id_and_the_node_stores_it() -> None:
    host = VirtualHost(disk_with_cluster_id(), cluster_id=None, fresh_cluster_id=FRESH)
    assert host.node.quorum.core.log.voter_set.cluster_id == FRESH
    stored = meta_properties.load(host.files, "data")
    assert stored == meta_properties.MetaProperties(FRESH, 1, b"\x01" * 16)
    metadata = FrameClient(host).ask(ApiKey.METADATA, 9, MetadataRequest(topics=None))
    assert metadata.cluster_id == FRESH
    host.files.power_loss()
    assert meta_properties.load(host.files, "data") == stored


def test_q29_the_cluster_id_is_stored_only_after_its_commit() -> None:
    host = VirtualHost(
        disk_with_cluster_id(), cluster_id=None, fresh_cluster_id=FRESH, settled=False
    )
    host.one_turn()
    assert host.node.cluster_id is None
    assert meta_properties.load(host.files, "data").cluster_id is None
    host.settle()
    assert meta_properties.load(host.files, "data").cluster_id == FRESH


def test_q29_an_unstored_cluster_id_is_read_from_the_log_again() -> None:
    """The next start does not generate another id."""
    first = VirtualHost(disk_with_cluster_id(), cluster_id=None, fresh_cluster_id=FRESH)
    first.files.kill()
    unstored = meta_properties.load(first.files, "data").replace(cluster_id=None)
    write_whole(first.files, f"data/{meta_properties.NAME}", meta_properties.encode(unstored))
    restarted = VirtualHost(first.files, cluster_id=None, fresh_cluster_id="another")
    assert restarted.node.cluster_id == FRESH
    assert meta_properties.load(restarted.files, "data").cluster_id == FRESH


@pytest.mark.parametrize("cluster_id", [None, "c"])
def test_q29_meta_properties_keeps_a_known_or_unknown_cluster_id(cluster_id: str | None) -> None:
    """An unknown id is an empty value, because a missing line would count as corruption."""
    written = meta_properties.encode(meta_properties.MetaProperties(cluster_id, 1, b"\x01" * 16))
    assert meta_properties.parse(written, "p").cluster_id == cluster_id
