"""V5, KIP-966: the next start and the controller know of a clean shutdown."""

from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING

from kraftlog.metadata.values import RECOVERED, RECOVERING
from kraftlog.runner.log_lifecycle import BYTES_PER_TURN, STEP_COST
from kraftlog.storage.directory import LogDirectory
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kraftlog_simulator.files import Fault, MemoryFiles
from tests.node.frame_client import ask_settled, create_topics
from tests.virtual_host import VirtualHost

if TYPE_CHECKING:
    from kraftlog.metadata.values import PartitionImage

STEPS_PER_TURN = BYTES_PER_TURN // STEP_COST


def host_with_elr() -> VirtualHost:
    host = VirtualHost()
    update = FeatureUpdateKey(
        feature="eligible.leader.replicas.version", max_version_level=1, upgrade_type=1
    )
    request = UpdateFeaturesRequest(feature_updates=[update])
    assert ask_settled(host, ApiKey.UPDATE_FEATURES, 1, request).error_code == 0
    create_topics(host, {"demo": 1})
    return host


def partition_of(host: VirtualHost) -> PartitionImage:
    (partition,) = host.node.image.partitions.values()
    return partition


def stop_cleanly(host: VirtualHost) -> MemoryFiles:
    host.runner.close()
    return host.files


def epoch_in_marker(files: MemoryFiles) -> int:
    marker = bytes(files.bytes_of("data/.kafka_cleanshutdown"))
    epoch: int = json.loads(marker)["brokerEpoch"]
    return epoch


def test_the_clean_shutdown_file_has_the_broker_epoch() -> None:
    host = host_with_elr()
    epoch = host.node.image.brokers[1].epoch
    assert epoch_in_marker(stop_cleanly(host)) == epoch


def test_an_unregistered_process_keeps_the_epoch_of_the_previous_one() -> None:
    host = host_with_elr()
    epoch = host.node.image.brokers[1].epoch
    unregistered = VirtualHost(stop_cleanly(host), settled=False)
    assert unregistered.node.broker_epoch() == -1
    assert epoch_in_marker(stop_cleanly(unregistered)) == epoch


def test_elr_a_clean_restart_keeps_the_isr() -> None:
    host = host_with_elr()
    for _ in range(2):
        host = VirtualHost(stop_cleanly(host))
        after = partition_of(host)
        assert (after.isr, after.leader, after.recovery) == ((1,), 1, RECOVERED)


def test_elr_a_killed_leader_restarts_in_recovery() -> None:
    host = host_with_elr()
    host.files.kill()
    after = partition_of(VirtualHost(host.files))
    assert (after.isr, after.leader, after.recovery) == ((1,), 1, RECOVERING)


def test_v5_a_broker_is_fenced_until_its_logs_are_open() -> None:
    host = host_with_elr()
    create_topics(host, {"many": 3 * STEPS_PER_TURN})
    host = VirtualHost(stop_cleanly(host), settled=False)
    manager = host.node.replica_manager
    unopened = 0
    while not manager.has_opened_logs:
        host.deliver()
        host.one_turn()
        unopened += manager.is_registered and not manager.has_opened_logs
        assert not host.node.is_ready
    assert unopened > 1
    host.settle()
    assert host.node.is_ready


def test_v5_a_log_that_lacks_disk_space_does_not_keep_the_broker_fenced() -> None:
    host = VirtualHost()
    create_topics(host, {"demo": 1})
    host.runner.close()
    directory = LogDirectory(host.files, "data")
    directory.create(("demo", 0), b"\x07" * 16)  # a stray, which must be renamed first
    directory.close()
    host.files.faults.append(Fault("rename", errno.ENOSPC, "demo-0"))
    restarted = VirtualHost(host.files)
    assert not any(fault.times for fault in host.files.faults)
    (partition,) = restarted.node.replica_manager.partitions.values()
    assert not partition.is_open
    assert restarted.node.is_ready
